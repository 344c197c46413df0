"""A new optimiser for each batch

Each begins without averages and counts: what the one before has gathered of the gradients is gone.
"""
# kind: optimiser_made_again
# corpus: tc_an_optimiser_for_each_batch
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.Adam([w], lr=0.1)
for batch in range(5):
    pass
    # bug: optimizer = torch.optim.Adam([w], lr=0.1)
    optimizer.zero_grad()
    ((w - batch) ** 2).sum().backward()
    optimizer.step()
