"""A scaler that is called twice

Where gradients of several batches add up, they are unscaled once, right before the step.
"""
# kind: unscaled_twice
# corpus: th_unscaled_for_each_small_batch
import torch

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
for batch in range(2):
    scaler.scale(model(torch.ones(2, 3)).pow(2).mean()).backward()
    if batch == 1: scaler.unscale_(optimizer)
    # bug: scaler.unscale_(optimizer)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
