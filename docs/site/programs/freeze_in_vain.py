"""A freeze without effect

`requires_grad` is an attribute of parameters. On a module the assignment makes a new attribute, which nobody reads.
"""
# kind: freeze_without_effect
# corpus: w_items_of_a_sequential
import torch
from torch import nn

model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
model[0].requires_grad_(False)
# bug: model[0].requires_grad = False
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    model(torch.randn(3, 2)).pow(2).mean().backward()
    optimizer.step()
