"""A view where dimensions were to change places

`reshape` leaves the numbers in their order. What belongs to one sample is read as another's, and the loss still falls.
"""
# kind: dimensions_mixed
# corpus: tc_songs_whose_times_are_read_as_samples
import torch
from torch import nn

rnn = nn.GRU(6, 3)
optimizer = torch.optim.SGD(rnn.parameters(), lr=0.5)
x, label = torch.randn(7, 5, 6), torch.randint(0, 3, (7,))
for step in range(2):
    turned = x.transpose(0, 1)
    # bug: turned = x.reshape(5, 7, 6)
    loss = nn.functional.cross_entropy(rnn(turned)[1][-1], label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
