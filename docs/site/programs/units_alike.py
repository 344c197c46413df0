"""Units that begin alike

All weights are a tenth. Every unit gets the same gradient as the others, and no step ever tells them apart.
"""
# kind: units_alike
# corpus: fi_layers_that_all_begin_with_a_tenth
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 4, bias=False), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for layer in net[::2]:
    nn.init.xavier_uniform_(layer.weight)
    # bug: nn.init.constant_(layer.weight, 0.1)
x = torch.randn(12, 2)
for step in range(5):
    loss = ((net(x) - x[:, :1] * x[:, 1:]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
