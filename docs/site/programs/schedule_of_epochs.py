"""A schedule of epochs goes on after each batch

The rate is halved by each batch: after twenty there's next to nothing left of it, and what follows changes nothing.
"""
# kind: rate_run_out
# corpus: s_rate_of_epochs_moved_by_batches
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
for epoch in range(4):
    for batch in range(12):
        optimizer.zero_grad()
        ((w - batch) ** 2).sum().backward()
        optimizer.step()
        pass
        # bug: scheduler.step()
    scheduler.step()
    # bug: pass
