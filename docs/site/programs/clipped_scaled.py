"""Clipped while they are scaled

A scaler has multiplied the gradients by thousands. A threshold is meant for the true ones: `unscale_` first.
"""
# kind: clipped_while_scaled
# corpus: s_clipped_before_the_scaler_steps
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for target in (3.0, 4.0):
    optimizer.zero_grad()
    loss = ((w - target) ** 2).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    # bug: pass
    torch.nn.utils.clip_grad_norm_([w], 1.0)
    scaler.step(optimizer)
    scaler.update()
