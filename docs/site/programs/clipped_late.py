"""Gradients clipped after the step

The step has used them already.
"""
# kind: clipped_after_step
# corpus: l_clipped_after_the_step
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for target in (3.0, 4.0):
    optimizer.zero_grad()
    loss = ((w - target) ** 2).sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([w], 1.0)
    # bug: pass
    optimizer.step()
    pass
    # bug: torch.nn.utils.clip_grad_norm_([w], 1.0)
