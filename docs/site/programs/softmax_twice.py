"""Probabilities where the loss takes logits

`cross_entropy` applies `log_softmax` itself. Given probabilities it learns, but slowly, and never comes near 0.
"""
# kind: loss_of_probabilities
# corpus: j_cross_entropy_of_a_method_s_result
import torch
from torch import nn

layer = nn.Linear(4, 3)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
x, label = torch.randn(6, 4), torch.randint(0, 3, (6,))
for step in range(2):
    guess = layer(x)
    # bug: guess = layer(x).softmax(dim=1)
    loss = nn.functional.cross_entropy(guess, label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
