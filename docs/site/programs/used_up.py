"""Clipped, and nothing is clipped

`model.parameters()` can be gone through once: the optimiser has done so, and for the clip there's nothing left.
"""
# kind: used_up
# corpus: w_the_optimiser_has_used_them_up
import torch
from torch import nn

model = nn.Linear(2, 1)
parameters = list(model.parameters())
# bug: parameters = model.parameters()
optimizer = torch.optim.SGD(parameters, lr=0.1)
for step in range(3):
    loss = (10 * model(torch.randn(4, 2))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
