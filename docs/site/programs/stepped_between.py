"""The optimiser steps between two backward calls

A step writes the parameters in place. What is still to go backward has kept their old numbers.
"""
# kind: saved_tensor_modified
# corpus: v_discriminator_steps_between
import torch

w = torch.tensor([0.5, -1.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
h = (w * w).exp()
h.mean().backward(retain_graph=True)
pass
# bug: optimizer.step()
h.sum().backward()
optimizer.step()
