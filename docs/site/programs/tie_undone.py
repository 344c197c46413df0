"""Tied weights that become two

A model without numbers gets them by `to_empty()`, which makes each Parameter anew: what was tied has to be tied again.
"""
# kind: tie_undone
# corpus: m_autoencoder_tied_before_it_has_numbers
import torch

with torch.device("meta"):
    inner, outer = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    outer.weight = inner.weight
net = torch.nn.Sequential(inner, outer).to_empty(device="cpu")
outer.weight = inner.weight
# bug: pass
torch.nn.utils.vector_to_parameters(torch.ones(12), net.parameters())
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for x in torch.ones(3, 4, 2):
    optimizer.zero_grad()
    (net(x) - x).pow(2).mean().backward()
    optimizer.step()
