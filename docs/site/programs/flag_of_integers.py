"""The flag of whole numbers

Only floating point and complex numbers have a gradient. What chooses rows needs none: the rows learn without it.
"""
# kind: flag_of_integers
# corpus: a_stations_drawn_with_a_gradient
import torch

table = torch.ones(5, 2, requires_grad=True)
rows = torch.randint(0, 5, (3,))
# bug: rows = torch.randint(0, 5, (3,), requires_grad=True)
loss = table[rows].square().sum()
loss.backward()
