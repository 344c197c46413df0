"""Backward from more than one number

A gradient is that of one number. Of several, say with which weights they count.
"""
# error: grad can be implicitly created only for scalar outputs
import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x * x
y.sum().backward()
# bug: y.backward()
# or: y.mean().backward()
# or: y.backward(torch.ones(3))
