"""A tensor shifted onto itself

What is read and what is written overlap: torch refuses, since the result would depend on the order of the writes.
"""
# kind: memory_overlaps
# corpus: v_shifted_onto_itself
import torch

w = torch.ones(5, requires_grad=True)
series = torch.arange(5.0)
series[1:] -= series[:-1].clone()
# bug: series[1:].sub_(series[:-1])
(series * w).sum().backward()
