"""A hidden state that carries the last step's graph

Backward frees what the step has saved. The next step's graph still leads there, unless the state is detached.
"""
# kind: graph_freed
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = torch.ones(3)
for step in range(2):
    h = torch.tanh(h.detach() * a)
    # bug: h = torch.tanh(h * a)
    h.sum().backward()
    # or: h.sum().backward(retain_graph=True)
    # but: Nothing is raised, but this is no cure for a loop: each call goes back through all rounds before it. Detach the state.
