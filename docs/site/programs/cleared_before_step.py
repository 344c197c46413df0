"""Gradients cleared between backward and step

The step finds nothing to do, and nobody says so.
"""
# kind: cleared_before_step
# corpus: l_zeros_instead_of_none
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for target in (3.0, 4.0, 5.0):
    optimizer.zero_grad()
    # bug: pass
    loss = ((w - target) ** 2).sum()
    loss.backward()
    pass
    # bug: optimizer.zero_grad()
    optimizer.step()
