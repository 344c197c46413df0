"""Steps that are taken for samples

A recurrent layer takes its steps along the first axis, unless it is told that the samples come first. Untold, it goes from sample to sample.
"""
# kind: another_axis
# corpus: ax_digits_read_row_by_row
import torch
from torch import nn

cells = nn.LSTM(4, 8, batch_first=True)
# bug: cells = nn.LSTM(4, 8)
last = nn.Linear(8, 3)
optimizer = torch.optim.Adam([*cells.parameters(), *last.parameters()], lr=0.01)
x, kinds = torch.randn(12, 5, 4), torch.randint(0, 3, (12,))
for step in range(3):
    out, state = cells(x)
    loss = nn.functional.cross_entropy(last(out[:, -1]), kinds)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
