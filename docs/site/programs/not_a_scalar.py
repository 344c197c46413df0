"""Backward from more than one number

A gradient is that of one number. Of several, say with which weights they count.
"""
# kind: not_a_scalar
# corpus: e_a_loss_for_each_word
import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x * x
y.sum().backward()
# bug: y.backward()
# or: y.mean().backward()
# but: This is right too: each number counts a third.
# or: y.backward(torch.ones(3))
# but: This is right too: the weights are said outright.
