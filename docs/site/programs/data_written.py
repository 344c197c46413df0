"""A write through `.data`

`.data` has a version counter of its own: torch's check sees nothing, and the gradient is silently wrong. With `.detach()` it raises.
"""
# kind: silent_corruption
# corpus: q_data_of_a_view
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = a.exp()
shown = h.detach().clone()
# bug: shown = h.data
# or: shown = h.detach()
shown /= shown.max()
h.sum().backward()
