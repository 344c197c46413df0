"""Weights for a single number

Each number that backward starts from has one weight. What was summed is one number.
"""
# kind: weights_of_another_shape
# corpus: e_one_hot_for_a_sum
import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
weights = torch.tensor([0.0, 1.0, 0.0])
y = x * x
y.backward(weights)
# bug: y.sum().backward(weights)
# or: (y * weights).sum().backward()
# but: This is right too: the weights are part of the sum.
