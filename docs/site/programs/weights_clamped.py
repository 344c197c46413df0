"""Weights clamped through `.data` before backward

The forward pass has kept the old weights. After backward there is nothing left to spoil.
"""
# kind: silent_corruption
import torch

w = torch.tensor([-1.0, 0.5, 2.0], requires_grad=True)
loss = (w * w).sum()
pass
# bug: w.data.clamp_(0, 1)
# or: with torch.no_grad(): w.clamp_(0, 1)
loss.backward()
w.data.clamp_(0, 1)
