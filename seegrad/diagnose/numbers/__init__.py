"""What the numbers themselves say: where NaN and infinity began, what makes a gradient exactly 0."""

from __future__ import annotations

from seegrad.diagnose.numbers.constant import find_constant_terms
from seegrad.diagnose.numbers.not_finite import find_not_finite
from seegrad.diagnose.numbers.recomputed import find_recomputed
from seegrad.diagnose.numbers.slopes import find_slopes
from seegrad.diagnose.numbers.zeros import find_zeros

__all__ = ["find_constant_terms", "find_not_finite", "find_recomputed", "find_slopes", "find_zeros"]
