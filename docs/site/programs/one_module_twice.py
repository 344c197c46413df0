"""The best model is the model

An assignment makes a second name, not a second model.
"""
# kind: one_module_twice
# corpus: c_best_model_is_the_model
import copy

import torch
from torch import nn

model = nn.Linear(2, 1)
best_model = copy.deepcopy(model)
# bug: best_model = model
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best = float("inf")
for epoch in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 2)).pow(2).mean()
    loss.backward()
    optimizer.step()
    if loss.item() < best:
        best = loss.item()
        best_model = copy.deepcopy(model)
        # bug: best_model = model
model = best_model
