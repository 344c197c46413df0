"""From the numbers that capture gave to those of the Recording: without the gaps of what was forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Table = dict[int, int]
"""Number given by capture → number in the Recording; what was forgotten isn't in it."""


@dataclass(frozen=True, slots=True)
class Ids:
    """The tables for everything that is numbered.

    >>> ids = Ids.without_gaps([0, 7, 9], [0, 1], [], [])
    >>> ids.of(ids.frames, (7, 8, 9)), ids.one(ids.tensors, 1), ids.one(ids.tensors, 2)
    ((1, 2), 1, None)
    """

    frames: Table
    tensors: Table
    nodes: Table
    writes: Table

    @classmethod
    def without_gaps(
        cls, frames: Iterable[int], tensors: Iterable[int], nodes: Iterable[int], writes: Iterable[int]
    ) -> Ids:
        """Number each kind from 0, in the given order."""
        return cls(*({old: new for new, old in enumerate(numbers)} for numbers in (frames, tensors, nodes, writes)))

    @staticmethod
    def of(table: Table, numbers: Iterable[int]) -> tuple[int, ...]:
        """The new numbers, without what was forgotten."""
        return tuple([table[number] for number in numbers if number in table])

    @staticmethod
    def one(table: Table, number: int | None) -> int | None:
        """The new number, None for None and for what was forgotten."""
        return None if number is None else table.get(number)
