"""Summed over all samples

Each of three samples has its own number. Python's `sum` makes one number of them, which then counts for each sample.
"""
# kind: summed_over_samples
# corpus: os_python_adds_up_the_samples
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
fit = (x @ w - 1.0) ** 2
size = (x * w).pow(2).sum(dim=1)
loss = (fit + size).mean()
# bug: loss = (fit + sum(size)).mean()
loss.backward()
