"""A step that has no slope

`round` is flat nearly everywhere, so its gradient is exactly 0. A straight-through estimator rounds forward only.
"""
# kind: gradient_is_zero
import torch

x = torch.tensor([0.2, 1.4, 2.6], requires_grad=True)
steps = x + (x.round() - x).detach()
# bug: steps = x.round()
# or: steps = x
(steps**2).sum().backward()
