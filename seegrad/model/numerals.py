"""Numbers as a picture shows them: short, and the same on every run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from seegrad.model.recording import Preview


def rows(values: list[Any], shape: Sequence[int]) -> Preview:
    """Numbers as they are shown: a row for all, of a matrix one for each of its own."""
    texts = [numeral(value) for value in values]
    width = shape[1] if len(shape) == 2 else len(texts)
    return tuple([tuple(texts[start : start + width]) for start in range(0, len(texts), width)])


def numeral(value: complex | float | int | bool) -> str:
    """One number, the same on every run: three significant digits; below 100,000 no digit before the point is cut off.

    >>> [numeral(x) for x in (0.7310586, 1024.0, 1e-9, 123456.0, True, 7, 1 - 2j, -0.0)]
    ['0.731', '1024', '1e-09', '1.23e+05', 'True', '7', '1-2j', '0']
    """
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, complex):
        real, imaginary = _real(value.real), _real(value.imag)
        return f"{real}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    return _real(value)


def _real(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    if 100 <= abs(value) < 100_000:
        return f"{value:.0f}"
    text = f"{value:.3g}"
    return "0" if text == "-0" else text
