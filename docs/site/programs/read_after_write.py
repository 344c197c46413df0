"""A shortcut of what was overwritten

The branch begins with an activation in place: what is added afterwards isn't the input any more.
"""
# kind: read_after_write
# corpus: iw_shortcut_of_what_was_rectified
import torch
from torch import nn

layer = nn.Linear(2, 2)
branch = nn.Sequential(nn.ReLU(), nn.Linear(2, 2))
# bug: branch = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(2, 2))
x = layer(torch.tensor([[1.0, -1.0]]))
out = branch(x)
out = out + x
out.sum().backward()
