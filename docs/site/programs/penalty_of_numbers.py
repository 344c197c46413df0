"""A penalty made of numbers

`.item()` leaves the graph: the penalty is added to the loss and nothing is learned from it.
"""
# kind: constant_term
# corpus: c_penalty_of_numbers
import torch

w = torch.tensor([1.0, -2.0], requires_grad=True)
fit = ((w - 3) ** 2).sum()
penalty = w.abs().sum()
# bug: penalty = w.abs().sum().item()
# or: penalty = w.abs().sum().detach()
loss = fit + 0.5 * penalty
loss.backward()
