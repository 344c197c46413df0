"""A step that only moves a name

`p = p - …` makes a new tensor and gives it the loop's name; the model's own weight isn't touched.
"""
# kind: name_rebound
# corpus: u_descent_by_hand_under_a_loop_s_name
import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
x, y = torch.randn(8, 3), torch.randn(8, 1)
for step in range(3):
    loss = (net(x) - y).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
            # bug: p = p - 0.1 * p.grad
    net.zero_grad()
