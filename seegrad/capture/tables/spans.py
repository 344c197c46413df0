"""The tensors of one storage, found by the bytes they touch: a write looks at those it hit, however many there are."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator

Span = tuple[int, int]
"""Bytes of a storage: start, stop."""


class Spans:
    """Numbers by the bytes they stand for. Those of like length lie in order, so few are looked at that aren't hit.

    >>> spans = Spans([(7, (0, 100)), (8, (0, 4)), (9, (4, 8))])
    >>> sorted(spans.hit((4, 6), lambda number: True))
    [7, 9]
    """

    def __init__(self, given: Iterable[tuple[int, Span]]) -> None:
        self._by_length: dict[int, list[tuple[int, int, int]]] = {}
        for number, span in given:
            self.add(number, span)

    def add(self, number: int, span: Span) -> None:
        """One more."""
        insort(self._by_length.setdefault((span[1] - span[0]).bit_length(), []), (*span, number))

    def hit(self, span: Span, lives: Callable[[int], bool]) -> Iterator[int]:
        """Those whose bytes overlap with these; whoever lives no more is dropped on the way."""
        for bits, entries in self._by_length.items():
            at = bisect_left(entries, (span[0] - (1 << bits),))
            while at < len(entries) and entries[at][0] < span[1]:
                _, stop, number = entries[at]
                if not lives(number):
                    del entries[at]
                    continue
                if stop > span[0]:
                    yield number
                at += 1
