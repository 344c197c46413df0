"""An adapter frozen where it is 0

It begins at 0, so that it changes nothing at first. Frozen with its base, it never will.
"""
# kind: frozen_at_zero
# corpus: y_adapters_frozen_with_their_base
import torch
from torch import nn

base, head = nn.Linear(3, 3), nn.Linear(3, 1)
up, down = nn.Parameter(torch.zeros(3, 2)), nn.Parameter(torch.ones(2, 3))
base.requires_grad_(False)
pass
# bug: up.requires_grad_(False)
optimizer = torch.optim.SGD([up, down, *head.parameters()], lr=0.1)
for step in range(2):
    x = torch.randn(4, 3)
    loss = head(base(x) + x @ down.t() @ up.t()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
