"""The flag of a result

`requires_grad` can be set on a leaf alone: what a step has computed is one again after `.detach()`.
"""
# kind: flag_of_a_result
# corpus: i_dream_that_goes_on_from_its_own_step
import torch

w, x = torch.tensor([2.0, 1.0]), torch.tensor([1.0, 3.0])
for step in range(2):
    x.requires_grad = True
    (slope,) = torch.autograd.grad((w * x**2).sum(), x)
    x = (x - 0.1 * slope).detach()
    # bug: x = x - 0.1 * slope
