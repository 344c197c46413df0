"""A teacher without statistics

A BatchNorm in evaluation mode goes by the mean and variance that it has gathered. Those are buffers: who copies the
Parameters alone leaves the teacher with 0 and 1.
"""
# kind: statistics_left_behind
# corpus: ku_averages_that_are_tested_at_the_end
import copy

import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
teacher = copy.deepcopy(model).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(16, 4) + 2
    with torch.no_grad():
        wanted = teacher(x)
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True) + 0.1 * wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    teacher.load_state_dict(model.state_dict())
    # bug: teacher.load_state_dict(dict(model.named_parameters()), strict=False)
