"""`+=` on what sigmoid kept

Sigmoid computes its gradient from its own result, so it keeps it; `+=` overwrites just that. Addition keeps nothing.
"""
# kind: saved_tensor_modified
# corpus: g_pixels_clamped_in_place
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = a.sigmoid()
# or: h = a + 2
# but: Another operation: a sum doesn't keep its result, so that writing it is fine.
h = h + 1
# bug: h += 1
h.sum().backward()
