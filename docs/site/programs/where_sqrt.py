"""NaN from the side that `where` didn't choose

`where` sends 0 to the side that isn't chosen, and 0 times an infinite slope is NaN. Make the input safe, not the result.
"""
# kind: not_finite
# corpus: n_elu_written_with_where
# record: check_nan
import torch

x = torch.tensor([0.0, 1.0, 4.0], requires_grad=True)
safe = torch.where(x > 0, x, 1.0)
# bug: safe = x
# or: safe = x + 1e-12
y = torch.where(x > 0, safe.sqrt(), 0.0)
y.sum().backward()
