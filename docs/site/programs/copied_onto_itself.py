"""Copied onto itself

The slow model is to follow the fast one. Given its own numbers, it stays where it is.
"""
# kind: copied_onto_itself
# corpus: os_a_slow_twin_that_follows_itself
import torch

fast, slow = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(fast.parameters(), lr=0.1)
x = torch.tensor([[1.0, 2.0]])
for _ in range(3):
    optimizer.zero_grad()
    (fast(x) - slow(x).detach()).pow(2).sum().backward()
    optimizer.step()
    slow.load_state_dict(fast.state_dict())
    # bug: slow.load_state_dict(slow.state_dict())
