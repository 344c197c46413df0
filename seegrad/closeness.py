"""Values beside the values that were expected: are they alike, and what is there to know of those that aren't?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from seegrad.arguments import Arguments, Live
from seegrad.check import COARSE
from seegrad.words.languages import _, marked

TOLERANCE: Mapping[torch.dtype, float] = {torch.float64: 1e-9}  # of the largest number; 1e-4 for all other dtypes
ARGUMENT = marked("These are the values of `{name}`.")
FACTOR = marked("Each number is {factor} times what was expected.")
SOME = marked("Wrong numbers: {count} of {all}.")


@dataclass(frozen=True, slots=True)
class Values:
    """Values that came and are wrong, those that should have come, and how the truth's are read."""

    came: torch.Tensor
    want: torch.Tensor
    read: Callable[[Arguments, Any], Any]

    def tells(self) -> bool:
        """Are they numbers that no two calls have by chance?"""
        return self.came.is_floating_point() and bool(self.came.detach().count_nonzero())

    def are_for_an_earlier(
        self, truth: Callable[..., Any], case: Mapping[str, Any], held: Sequence[Mapping[str, Any]]
    ) -> str:
        """The name of the tensor which, taken from an earlier case, makes these values the right ones; or nothing."""
        pairs = ((earlier, name) for earlier in held for name in case if self.tells())
        return next((name for earlier, name in pairs if self._right_with(truth, case, name, earlier.get(name))), "")

    def _right_with(self, truth: Callable[..., Any], case: Mapping[str, Any], name: str, value: Any) -> bool:
        if not isinstance(value, torch.Tensor | Live):
            return False
        theirs = Arguments({**case, name: value})
        try:
            want = self.read(theirs, truth(*theirs.passed.values()))
        except Exception:  # the author's own function: the shapes of two cases needn't go together
            return False
        return isinstance(want, torch.Tensor) and close(self.came, want)

    def difference(self, others: Mapping[str, torch.Tensor]) -> str:
        """What the wrong values are: an argument's, rounded, a multiple of the right ones, some of them."""
        for name, other in others.items():
            if self.tells() and other.shape == self.came.shape and close(self.came, other):
                return _(ARGUMENT).format(name=name)
        came, want = self.came.detach().to(torch.float64), self.want.detach().to(torch.float64)
        near = 1e-4 * want.abs().max()
        wrong, nonzero = (came - want).abs() > near, want.abs() > near
        if not wrong.any():
            return _(COARSE)
        factors = came[nonzero] / want[nonzero]
        if (
            len(factors) > 1
            and factors[0]
            and bool(((factors / factors[0] - 1).abs() < 1e-4).all())
            and not (wrong & ~nonzero).any()
        ):
            return _(FACTOR).format(factor=f"{factors[0].item():.4g}")
        if 0 < wrong.sum() < wrong.numel():
            return _(SOME).format(count=int(wrong.sum()), all=wrong.numel())
        return ""


def equal(came: torch.Tensor, want: torch.Tensor) -> bool:
    """The same dtype, shape and numbers."""
    return came.shape == want.shape and came.dtype == want.dtype and torch.equal(came.detach(), want)


def close(came: torch.Tensor, want: torch.Tensor) -> bool:
    """Within the tolerance of the type, measured by the largest number."""
    if came.shape != want.shape:
        return False
    if came.dtype == want.dtype and torch.equal(came.detach(), want.detach()):
        return True  # as most are, number for number
    here, there = came.detach().to(torch.float64), want.detach().to(torch.float64)
    bound = TOLERANCE.get(want.dtype, 1e-4) * max(1e-6, float(there.abs().max()) if there.numel() else 0.0)
    return bool(torch.allclose(here, there, rtol=0.0, atol=bound))
