"""A layer that no loss reaches

The optimiser holds it, no forward uses it: its gradients stay None.
"""
# kind: never_reached
# corpus: f_layer_that_no_forward_uses
import torch
from torch import nn

first, second, last = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 1)
layers = nn.ModuleList([first, second, last])
optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
for step in range(2):
    h = second(first(torch.randn(3, 2)))
    # bug: h = first(torch.randn(3, 2))
    optimizer.zero_grad()
    last(h).pow(2).mean().backward()
    optimizer.step()
