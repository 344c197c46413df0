"""Divided after its backward call

Two batches are added up for one step. What backward has gone through is divided no more.
"""
# kind: divided_late
# corpus: os_parts_divided_once_they_are_fired
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for i, target in enumerate((3.0, 4.0, 5.0) * 4):
    loss = ((w - target) ** 2).sum()
    loss = loss / 2
    # bug: pass
    loss.backward()
    # bug: loss.backward(); loss = loss / 2
    if i % 2 == 1:
        optimizer.step()
        optimizer.zero_grad()
