"""Gradients of a backward call that are cleared unused, in each round from one step to the next.

A round with many micro-batches is longer than what is remembered of a long loop, so it's noted while it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from seegrad.model.recording import Place

ROUNDS = 3
"""So many, one after the other and each alike: a batch may be dropped once, or a step be refused."""


@dataclass(frozen=True, slots=True)
class Thrown:
    """What a backward call on `line` had computed, its last Frame `frame`, was cleared on `place`.

    `apart`: that call gave nothing to anybody but this optimiser.
    """

    place: Place
    line: Place | None
    frame: int
    apart: bool


class ThrownCalls:
    """Those of one optimiser, from step to step; None once it's over: a round wasn't so, or it has been told."""

    def __init__(self) -> None:
        self._since: list[Thrown] | None = []
        self._before: tuple[object, ...] = ()
        self._rounds = 0

    def cleared(self, calls: list[Thrown]) -> None:
        """These calls' gradients are cleared, and nobody has made use of them."""
        if self._since is not None:
            self._since += calls

    def used(self) -> None:
        """Somebody has, or it is done on purpose."""
        self._since = None

    def stepped(self, lines: list[Place | None]) -> list[Thrown]:
        """The optimiser steps by calls on these lines; what each round has thrown away, once that is sure."""
        found = self._since
        if not found or len({each.place for each in found}) != 1 or len(set(lines)) != 1:
            self._since = None
            return []
        if not all(each.apart for each in found):  # it may have been for another optimiser
            self._since = None
            return []
        round_ = *((each.place, each.line) for each in found), *lines
        self._rounds = self._rounds + 1 if round_ == self._before else 1
        self._before, self._since = round_, None if self._rounds == ROUNDS else []
        return found if self._rounds == ROUNDS else []
