"""Clipped before all of it has come

Two batches are added up for one step. Clipped behind each of them, the first one is cut down twice.
"""
# kind: clipped_in_parts
# corpus: u_tides_clipped_as_they_come
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for i, target in enumerate((3.0, 4.0, 5.0) * 4):
    ((w - target) ** 2).sum().backward()
    pass
    # bug: torch.nn.utils.clip_grad_norm_([w], 1.0)
    if i % 2 == 1:
        torch.nn.utils.clip_grad_norm_([w], 1.0)
        # bug: pass
        optimizer.step()
        optimizer.zero_grad()
