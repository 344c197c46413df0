"""The slope of a function: what autograd says, and what the function itself says when an input moves a little."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

STEP = 1e-6  # of a finite difference in float64


def gradients(
    out: torch.Tensor, inputs: Sequence[torch.Tensor], weight: torch.Tensor
) -> tuple[torch.Tensor | None, ...]:
    """What autograd says of `(out * weight).sum()`: None for an input that no graph leads to."""
    total = (out * weight).sum()
    return torch.autograd.grad(total, inputs, allow_unused=True) if total.requires_grad else (None,) * len(inputs)


def difference(
    function: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor], at: torch.Tensor, weight: torch.Tensor
) -> torch.Tensor:
    """Central difference of `(function(*inputs) * weight).sum()` in each number of `at`."""
    slope = torch.zeros_like(at.detach()).flatten()
    for index in range(at.numel()):
        ends = []
        for sign in (1, -1):
            moved = at.detach().clone()
            moved.view(-1)[index] += sign * STEP
            out = function(*(moved.requires_grad_() if tensor is at else tensor for tensor in inputs))
            ends.append(float((out.detach() * weight).sum()))
        slope[index] = (ends[0] - ends[1]) / (2 * STEP)
    return slope.reshape(at.shape)
