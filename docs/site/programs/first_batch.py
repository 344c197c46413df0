"""Always the first batch

Begun anew in each step, a loader that doesn't shuffle hands out the same samples each time.
"""
# kind: first_batch_only
# corpus: pr_harvest_foretold_from_its_first_weeks
import torch

w = torch.tensor(1.0, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
loader = torch.utils.data.DataLoader(torch.arange(6.0), batch_size=2)
batches = iter(loader)
for step in range(5):
    batch = next(batches, torch.zeros(2))
    # bug: batch = next(iter(loader))
    optimizer.zero_grad()
    ((w - batch) ** 2).sum().backward()
    optimizer.step()
