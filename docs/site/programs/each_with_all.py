"""Values beside a column

A layer with one output gives `[n, 1]`. Beside targets of shape `[n]` torch makes a table of all pairs.
"""
# kind: broadcast_crosswise
# corpus: s_regression_beside_a_column
import torch
from torch import nn

model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 2)
y = x[:, 0] - x[:, 1]
for step in range(3):
    prediction = model(x).squeeze(1)
    # bug: prediction = model(x)
    loss = ((prediction - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
