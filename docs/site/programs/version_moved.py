"""A write that would stop a backward call

Nothing is wrong until someone goes backward: the version has moved, and torch would raise.
"""
# kind: version_moved
# corpus: s002_in61_to_64_data_shares_memory
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid()
c = out.detach().clone()
# bug: c = out.detach()
c.zero_()
pass
# or: out.sum().backward()
