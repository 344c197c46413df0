"""A branch cut by `.detach()`

What is detached is a number: nothing goes back to `a`, and its `.grad` stays None.
"""
# kind: graph_cut
# corpus: c05_detach_cuts
import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([3.0, 4.0], requires_grad=True)
y = a * 2
# bug: y = (a * 2).detach()
# or: with torch.no_grad(): y = a * 2
(y * b).sum().backward()
