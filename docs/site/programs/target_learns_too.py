"""A target that learns too

The target of a temporal difference is a number. With a graph, half of the gradient moves the target towards the value.
"""
# kind: target_learns_too
# corpus: b_temporal_difference
import torch
from torch import nn

critic = nn.Linear(2, 1)
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
for step in range(2):
    state, following, reward = torch.randn(3, 2), torch.randn(3, 2), torch.randn(3, 1)
    value = critic(state)
    with torch.no_grad(): target = reward + 0.9 * critic(following)
    # bug: target = reward + 0.9 * critic(following)
    # or: target = reward + 0.9 * critic(following).detach()
    loss = nn.functional.mse_loss(value, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
