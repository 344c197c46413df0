"""Prediction and target the wrong way round

The loss treats its two sides differently. Swapped, it still hands a gradient back, but not that of their distance.
"""
# kind: loss_turned_round
# corpus: tc_moths_compared_the_wrong_way_round
import torch
from torch import nn

layer = nn.Linear(4, 3)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
x, there = torch.randn(6, 4), torch.randint(0, 2, (6, 3)).float()
for step in range(2):
    guess = layer(x)
    loss = nn.functional.binary_cross_entropy_with_logits(guess, there)
    # bug: loss = nn.functional.binary_cross_entropy_with_logits(there, guess)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
