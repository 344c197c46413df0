"""A write to one of several views

`unbind`, `split` and `chunk` give several views at once, which autograd can't follow through a write.
"""
# kind: view_modified
import torch

x = torch.ones(2, 3, requires_grad=True)
rows = (x * 2).unbind()
# or: rows = x * 2
# but: Another operation: each row is a view of its own, which autograd can follow.
first = rows[0] * 3
# bug: first = rows[0].mul_(3)
first.sum().backward()
