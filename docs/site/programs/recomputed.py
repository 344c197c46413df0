"""A checkpoint that computes something else the second time

A checkpoint keeps no results: in backward it runs its function again. What has gone on in between, here a counter, makes
the second run another one, and torch compares shapes alone.
"""
# kind: recomputed_otherwise
import torch
from torch.utils.checkpoint import checkpoint

runs = []


def block(x):
    runs.append(1)
    warm = x * 0.5
    # bug: warm = x * (0.5 * len(runs))
    return torch.tanh(warm).exp()


x = torch.tensor([0.5, -1.0], requires_grad=True)
y = checkpoint(block, x, use_reentrant=False)
y.sum().backward()
