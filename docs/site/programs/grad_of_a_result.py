"""`.grad` of a tensor that is no leaf

Backward keeps gradients at leaves. Elsewhere it does where it was asked to before: `retain_grad()`.
"""
# kind: grad_of_non_leaf
# corpus: x_leaf_rebound_by_arithmetic
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
h = w * 0.5
h.retain_grad()
# bug: pass
(h**2).sum().backward()
print(h.grad)
