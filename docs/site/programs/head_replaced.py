"""A head put in after the optimiser was made

The optimiser holds the parameters of the old head. The new one has gradients and never moves.
"""
# kind: no_optimiser_holds_it
# corpus: l_head_replaced_after_the_optimiser_was_made
import torch
from torch import nn

model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
model[2] = nn.Linear(3, 1)
# bug: pass
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pass
# bug: model[2] = nn.Linear(3, 1)
for step in range(2):
    optimizer.zero_grad()
    model(torch.randn(4, 2)).pow(2).mean().backward()
    optimizer.step()
