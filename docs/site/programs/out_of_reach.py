"""Scores behind a ReLU

A cross-entropy takes scores of either sign. Behind a ReLU none is below 0, and one that is cut off learns nothing.
"""
# kind: out_of_reach
# corpus: fi_scores_of_a_classifier_behind_a_relu
import torch
from torch import nn

hidden, last = nn.Linear(4, 8), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*hidden.parameters(), *last.parameters()], lr=0.1)
x = torch.randn(12, 4)
kinds = x[:, :3].argmax(1)
for step in range(3):
    scores = last(hidden(x).relu())
    # bug: scores = last(hidden(x).relu()).relu()
    loss = nn.functional.cross_entropy(scores, kinds)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
