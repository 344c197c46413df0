"""A softmax along the batch, where the loss reads classes

Each class's numbers add up to 1 over the samples: the loss takes them for the probabilities of one sample's classes.
"""
# kind: not_normalised
# corpus: tc_birds_that_share_a_sum_over_the_batch
import torch
from torch import nn

layer = nn.Linear(4, 3)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
x, label = torch.randn(6, 4), torch.randint(0, 3, (6,))
for step in range(2):
    sure = torch.log_softmax(layer(x), dim=1)
    # bug: sure = torch.log_softmax(layer(x), dim=0)
    loss = nn.functional.nll_loss(sure, label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
