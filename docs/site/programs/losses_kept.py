"""Losses in a list, with their graphs

Each loss holds its whole graph alive. `.item()` takes the number, `.detach()` the tensor without the graph.
"""
# kind: graph_kept
# corpus: g_losses_in_a_list
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
losses = []
for target in (3.0, 4.0, 5.0, 6.0):
    loss = ((w - target) ** 2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    # bug: losses.append(loss)
    # or: losses.append(loss.detach())
