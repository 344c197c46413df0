"""A clip that is given nothing

An iterator can be gone through once, and the optimiser has gone through it.
"""
# kind: clips_nothing
# corpus: u_optimiser_has_gone_through_the_filter
import torch
from torch import nn

net = nn.Linear(3, 1)
learns = list(filter(lambda p: p.requires_grad, net.parameters()))
# bug: learns = filter(lambda p: p.requires_grad, net.parameters())
optimizer = torch.optim.SGD(learns, lr=0.1)
for step in range(3):
    loss = net(torch.randn(8, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(learns, 1.0)
    optimizer.step()
