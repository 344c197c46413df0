"""One class after the other

The data are sorted, and the batches are taken in their order: each step forgets the classes before.
"""
# kind: one_class_in_a_batch
# corpus: fi_loader_that_goes_through_the_kinds_of_beetle
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, kinds = torch.randn(64, 4), torch.arange(64) // 32
loader = DataLoader(TensorDataset(x, kinds), batch_size=4, shuffle=True)
# bug: loader = DataLoader(TensorDataset(x, kinds), batch_size=4)
for batch, kind in loader:
    loss = nn.functional.cross_entropy(net(batch), kind)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
