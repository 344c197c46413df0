"""An unfinished window, thrown away

Three batches an epoch, two for a step: what the third one has left is cleared before any step has used it.
"""
# kind: unfinished_window
# corpus: m_last_hours_of_each_day
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for epoch in range(4):
    for i, target in enumerate((3.0, 4.0, 5.0)):
        ((w - target) ** 2).sum().backward()
        if i % 2 == 1: optimizer.step(); optimizer.zero_grad()
    optimizer.step(); optimizer.zero_grad()
    # bug: optimizer.zero_grad()
