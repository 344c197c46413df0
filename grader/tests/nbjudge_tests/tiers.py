"""Of many cases alike, which stand for the others in `make test`; `make test-all` runs every one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nbjudge_tests.session import ALL

__all__ = ["ALL", "first_of", "one_in", "some"]


def one_in(every: int, cases: Iterable[Any]) -> list[Any]:
    """Parameters of a test: one case in so many is always run, the ones between only where all is tested."""
    return [case for n, case in enumerate(cases) if ALL or n % every == 0]


def first_of(cases: Iterable[Any]) -> list[Any]:
    """The same, where the first case stands for all the others."""
    return [case for n, case in enumerate(cases) if ALL or n == 0]


def some(count: int, cases: Iterable[Any], *, everything: bool = ALL) -> list[Any]:
    """The same, where so many of them stand for all, from all over: of a corpus that grows, `make test` takes no more.

    >>> some(2, "abcd", everything=False)
    ['a', 'c']
    """
    each = list(cases)
    shown = {place * len(each) // count for place in range(count)}
    return [case for n, case in enumerate(each) if everything or n in shown]
