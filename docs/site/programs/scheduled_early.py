"""The schedule steps before the optimiser

The first learning rate is never used.
"""
# kind: scheduled_before_step
# corpus: s_a_warm_up_that_loses_its_first_value
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
for target in (3.0, 4.0, 5.0):
    optimizer.zero_grad()
    ((w - target) ** 2).sum().backward()
    pass
    # bug: scheduler.step()
    optimizer.step()
    scheduler.step()
    # bug: pass
