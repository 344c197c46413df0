"""The gradient for a tensor that the result isn't made of

Each `x[:, 0]` is a new tensor. Only the one that was computed with has a gradient.
"""
# kind: unused_input
# corpus: x_gradient_of_a_fresh_slice
import torch

x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
column = x[:, 0]
energy = (column**2).sum()
# bug: energy = (x**2).sum()
(gradient,) = torch.autograd.grad(energy, column)
# or: (gradient,) = torch.autograd.grad(energy, column, allow_unused=True)
# but: Nothing is raised, but the gradient is None: what was asked is unanswered.
print(gradient)
