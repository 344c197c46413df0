"""A loss that no graph leads to

Without one leaf that requires grad there is no graph. `.item()` and `torch.tensor(…)` take numbers out of one.
"""
# kind: graph_cut
# corpus: k_nothing_requires_grad
import torch

x = torch.ones(3, requires_grad=True)
# bug: x = torch.ones(3)
loss = (x * x).sum()
# or: loss = torch.tensor((x * x).sum().item())
loss.backward()
