"""Dropout goes on in evaluation

A function of torch's knows nothing of `eval()`: it drops unless it's told not to, and no evaluation gives the same twice.
"""
# kind: dropout_in_evaluation
# corpus: tc_tides_that_drop_in_both_modes
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.near, self.far = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        h = nn.functional.dropout(torch.relu(self.near(x)), 0.5, self.training)
        # bug: h = nn.functional.dropout(torch.relu(self.near(x)), 0.5)
        return self.far(h)


net, x = Net(), torch.ones(3, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    net.train()
    loss = net(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    net.eval()
    with torch.no_grad():
        shown = net(x).mean()
