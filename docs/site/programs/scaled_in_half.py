"""A half-precision model and a scaler

A `GradScaler` scales for parameters in `float32`; under autocast the ops choose `float16` by themselves.
"""
# kind: scaled_in_half
# corpus: v_half_before_the_optimiser
import torch

model = torch.nn.Linear(3, 1)
# bug: model = torch.nn.Linear(3, 1).half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
with torch.autocast("cpu", dtype=torch.float16):
    out = model(torch.ones(2, 3))
scaler.scale(out.float().pow(2).mean()).backward()
scaler.step(optimizer)
