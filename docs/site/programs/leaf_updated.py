"""A step written by hand

A leaf that requires grad can't be written where autograd looks. `w = w - …` makes another tensor, which is no leaf.
"""
# kind: leaf_modified
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
loss = (w * w).sum()
loss.backward()
with torch.no_grad(): w -= 0.1 * w.grad
# bug: w -= 0.1 * w.grad
# or: w = w - 0.1 * w.grad
# but: Nothing is raised, but `w` is no leaf any more: its next `.grad` is None.
# or: w.data -= 0.1 * w.grad
# but: This works here, but torch's check doesn't see it: a write before backward would be silently wrong.
print(w, w.is_leaf)
