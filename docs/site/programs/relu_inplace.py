"""`inplace=True` after an operation that keeps its result

The activation saves no memory here: tanh needs the numbers that it overwrites.
"""
# kind: saved_tensor_modified
import torch
from torch import nn

a = torch.tensor([-1.0, 0.5, 2.0], requires_grad=True)
h = a.tanh()
# or: h = a * 3
# but: Another operation: a product doesn't keep its result, so that writing it is fine.
h = nn.ReLU()(h)
# bug: h = nn.ReLU(inplace=True)(h)
h.sum().backward()
