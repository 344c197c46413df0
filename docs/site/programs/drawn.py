"""A draw that hands nothing back

`torch.normal` gives 0 to what it draws from: only the other term trains it. Draw apart, and compute with it.
"""
# kind: constant_term
# corpus: c_noise_with_a_spread_of_its_own
import torch

torch.manual_seed(0)
mean = torch.tensor([1.0, -2.0], requires_grad=True)
width = torch.tensor([0.5, 0.5], requires_grad=True)
code = mean + width * torch.randn(2)
# bug: code = torch.normal(mean, width)
loss = (code - 3).pow(2).sum() + 0.1 * (mean.pow(2) + width.pow(2) - 2 * width.log()).sum()
loss.backward()
