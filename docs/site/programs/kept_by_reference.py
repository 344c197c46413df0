"""Weights remembered by reference

A list of parameters is a list of the parameters themselves, which move on. Only copies stay what they were.
"""
# kind: kept_by_reference
# corpus: c_parameters_compared_with_themselves
import torch
from torch import nn

model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
before = [p.detach().clone() for p in model.parameters()]
# bug: before = list(model.parameters())
# or: before = [p.data for p in model.parameters()]
for step in range(2):
    optimizer.zero_grad()
    model(torch.randn(3, 2)).pow(2).mean().backward()
    optimizer.step()
with torch.no_grad(): moved = [(new - old).abs().sum() for new, old in zip(model.parameters(), before)]
print(moved)
