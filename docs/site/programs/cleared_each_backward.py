"""Accumulated gradients that are cleared each time

A step over two batches needs both gradients: clear when a step is over, not at each backward call.
"""
# kind: cleared_each_backward
# corpus: u_zeros_instead_of_none
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for i, target in enumerate((3.0, 4.0, 5.0, 6.0)):
    if i % 2 == 0: optimizer.zero_grad()
    # bug: optimizer.zero_grad()
    loss = ((w - target) ** 2).sum() / 2
    loss.backward()
    if i % 2 == 1: optimizer.step()
