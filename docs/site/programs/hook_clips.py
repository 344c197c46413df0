"""A hook that clips in place

Two Nodes were handed one gradient. A hook that writes into it changes both; one that returns a new tensor changes its own.
"""
# kind: gradient_overwritten
# corpus: f_tensor_hook_clips_in_place
import torch

a = torch.ones(2, requires_grad=True)
b = torch.ones(2, requires_grad=True)
right = b.exp()
left = a.exp()
left.register_hook(lambda grad: grad.clamp(-0.1, 0.1))
# bug: left.register_hook(lambda grad: grad.clamp_(-0.1, 0.1))
(left + right).pow(2).sum().backward()
