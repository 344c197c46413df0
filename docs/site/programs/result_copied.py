"""A copy of a module that holds a result

torch copies leaves alone: the copy of a result would lose its history.
"""
# kind: result_copied
# corpus: v_features_left_on_the_module
import copy

import torch
from torch import nn


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = nn.Linear(2, 1), None

    def forward(self, x):
        out = self.layer(x)
        self.seen = out.detach()
        # bug: self.seen = out.tanh()
        return out.sum()


model = Keeps()
model(torch.ones(2)).backward()
best = copy.deepcopy(model)
