"""An advantage that trains its critic

How far the critic is off weighs the policy's loss. With its graph, the critic is trained to make that loss small, too.
"""
# kind: weight_learns_too
# corpus: y_advantage_trains_the_critic
import torch
from torch import nn

policy, critic = nn.Linear(2, 3), nn.Linear(2, 1)
optimizer = torch.optim.SGD([*policy.parameters(), *critic.parameters()], lr=0.1)
for step in range(2):
    states, returns = torch.randn(4, 2), torch.randn(4)
    scores, values = policy(states).log_softmax(dim=1)[:, 0], critic(states).squeeze(1)
    advantage = returns - values.detach()
    # bug: advantage = returns - values
    loss = -(scores * advantage).mean() + nn.functional.mse_loss(values, returns)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
