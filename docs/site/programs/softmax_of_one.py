"""Attention that is always 1

A score for each word, and a softmax along the dimension that holds one score.
"""
# kind: softmax_of_one
# corpus: s_pooling_attention_over_the_wrong_dimension
import torch
from torch import nn

score, out = nn.Linear(4, 1), nn.Linear(4, 2)
optimizer = torch.optim.SGD([*score.parameters(), *out.parameters()], lr=0.1)
words, label = torch.randn(6, 5, 4), torch.randint(0, 2, (6,))
for step in range(3):
    weights = score(words).softmax(dim=1)
    # bug: weights = score(words).softmax(dim=2)
    loss = nn.functional.cross_entropy(out((weights * words).sum(1)), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
