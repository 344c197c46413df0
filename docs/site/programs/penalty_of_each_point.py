"""A penalty that holds each point

A norm along one of two axes leaves a number for each point, and each of them is drawn to 1.
"""
# kind: penalty_of_each_point
# corpus: cd_slope_of_each_moment
import torch
from torch.autograd import grad

w = torch.nn.Parameter(torch.ones(2, 3))
songs = torch.ones(2, 2, 3, requires_grad=True)
scores = (songs * w).sum(dim=(1, 2)) ** 2
(slope,) = grad(scores.sum(), songs, create_graph=True)
norms = slope.norm(dim=(1, 2))
# bug: norms = slope.norm(dim=1)
loss = (norms - 1).square().mean()
loss.backward()
