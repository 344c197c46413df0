"""A missing target that is masked too late

The loss is finite: the mask has taken the NaN out. Backward comes by the square all the same, with 0 times NaN.
"""
# kind: not_finite
# corpus: n_missing_targets_squared_before_the_mask
import torch

w = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
target = torch.tensor([1.0, float("nan"), 2.0])
known = ~target.isnan()
squared = (w[known] - target[known]) ** 2
# bug: squared = ((w - target) ** 2)[known]
# or: squared = ((w - target.nan_to_num()) ** 2)[known]
squared.mean().backward()
