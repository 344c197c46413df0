"""Of many cases alike, which stand for the others in `make test`; `make test-all` runs every one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from nbjudge_tests.session import ALL

__all__ = ["ALL", "first_of", "one_in", "some"]


def one_in(every: int, cases: Iterable[Any]) -> list[Any]:
    """Parameters of a test: one case in so many is always run, the ones between only where all is tested."""
    return [pytest.param(case, marks=[pytest.mark.whole] if n % every else []) for n, case in enumerate(cases)]


def first_of(cases: Iterable[Any]) -> list[Any]:
    """The same, where the first case stands for all the others."""
    return [pytest.param(case, marks=[pytest.mark.whole] if n else []) for n, case in enumerate(cases)]


def some(count: int, cases: Iterable[Any]) -> list[Any]:
    """The same, where so many of them stand for all, from all over: of a corpus that grows, `make test` takes no more.

    >>> [bool(each.marks) for each in some(2, "abcd")]
    [False, True, False, True]
    """
    each = list(cases)
    shown = {place * len(each) // count for place in range(count)}
    return [pytest.param(case, marks=[] if n in shown else [pytest.mark.whole]) for n, case in enumerate(each)]
