"""A penalty that nothing takes up

A gradient penalty is computed in each step, with the graph that it needs to train. It trains only as a part of the loss.
"""
# kind: penalty_unused
# corpus: q_penalty_never_added
import torch
from torch import nn

critic = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
for step in range(4):
    real, fake = torch.randn(4, 2), torch.randn(4, 2)
    mixed = (0.5 * real + 0.5 * fake).requires_grad_()
    (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    penalty = ((slope.norm(dim=1) - 1) ** 2).mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
    # bug: loss = critic(fake).mean() - critic(real).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
