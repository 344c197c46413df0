"""Second derivatives of all columns at once

What one call gives is a sum over all that it starts from: the mixed derivatives are in it.
"""
# kind: columns_added
# corpus: cd_laplacian_of_both_columns
import torch
from torch.autograd import grad

w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))

def laplacian(points):
    (first,) = grad(((points @ w) ** 3).sum(), points, create_graph=True)
    second = torch.stack([grad(first[:, i].sum(), points, create_graph=True)[0][:, i] for i in (0, 1)], 1)
    # bug: second = grad(first, points, torch.ones_like(first), create_graph=True)[0]
    return second[:, 0] + second[:, 1]

loss = laplacian(torch.ones(1, 2, requires_grad=True)).sum()
loss.backward()
