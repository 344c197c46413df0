"""A clip that keeps nothing

`clamp` makes new numbers and nobody takes them: the step uses the gradient as it came. `clamp_` writes.
"""
# kind: result_dropped
# corpus: u_gradients_clipped_into_nothing
import torch
from torch import nn

net = nn.Linear(3, 1)
x, y = torch.randn(8, 3), 100 * torch.randn(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = (net(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    for p in net.parameters():
        p.grad.clamp_(-1, 1)
        # bug: p.grad.clamp(-1, 1)
    optimizer.step()
