"""An optimiser that is given a result

`0.1 * leaf` is the result of an operation. An optimiser trains leaves only.
"""
# kind: optimiser_given_non_leaf
# corpus: x_optimiser_of_a_scaled_weight
import torch

w = (0.1 * torch.ones(3)).requires_grad_()
# bug: w = 0.1 * torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
(w * w).sum().backward()
optimizer.step()
