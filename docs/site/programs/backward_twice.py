"""Backward through one graph twice

The first call frees what the graph has saved. What it gives is added to `.grad`, so the second call doubles it.
"""
# kind: graph_freed
import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
loss = (x * x).sum()
loss.backward(retain_graph=True)
# bug: loss.backward()
pass
# or: x.grad = None
loss.backward()
