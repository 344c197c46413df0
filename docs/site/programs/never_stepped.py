"""A schedule that steps in the optimiser's place

The learning rate changes, the weights don't.
"""
# kind: never_stepped
# corpus: u_schedule_in_its_place
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2)
for target in (3.0, 4.0, 5.0, 6.0):
    optimizer.zero_grad()
    loss = ((w - target) ** 2).sum()
    loss.backward()
    optimizer.step()
    # bug: scheduler.step()
