"""An old policy that is the new one

PPO compares a policy with what it was before these steps. Computed anew in each of them, the old one is the new one.
"""
# kind: ratio_is_one
# corpus: q_old_policy_computed_in_each_epoch
import torch
from torch import nn

policy = nn.Linear(2, 3)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
states, gains = torch.randn(4, 2), torch.randn(4)
first = policy(states).log_softmax(dim=1)[:, 0].detach()
for step in range(3):
    new = policy(states).log_softmax(dim=1)[:, 0]
    old = first
    # bug: old = policy(states).log_softmax(dim=1)[:, 0].detach()
    ratio = (new - old).exp()
    loss = -torch.min(ratio * gains, ratio.clamp(0.8, 1.2) * gains).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
