"""`zero_grad` forgotten

Each backward call adds to `.grad`: the step follows the sum of all batches so far.
"""
# kind: gradients_never_cleared
# corpus: l_zero_grad_forgotten
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for target in (3.0, 4.0, 5.0):
    optimizer.zero_grad()
    # bug: pass
    loss = ((w - target) ** 2).sum()
    loss.backward()
    optimizer.step()
