"""The lines that take plain numbers out of a result with a history: no op, so no Frame tells of it.

Torch hands the numbers out as it did before: what is read here is known already.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from seegrad.capture.probes.places import Source, is_users
from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue, Place

TAKING = frozenset({"item", "tolist", "__float__"})
"""Calls that hand out numbers."""

MOST = 1_000
"""So many pairs of lines are kept: who made a result, who takes its numbers."""


class TakenNumbers:
    """Of each line that takes some, and each that made what it takes from, the newest result."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._lines: dict[tuple[Place, Place | None, str], int] = {}

    def met(self, tensor: Any, caller: FrameType) -> None:
        """That frame is about to take the numbers of a tensor."""
        if not tensor.requires_grad or tensor.is_leaf or not is_users(caller.f_code.co_filename):
            return
        number, place = self._tables.tensors.find(tensor), self._source.place(caller)
        made = None if number is None else self._tables.frames.drafts.get(self._tables.tensors.drafts[number].frame)
        if number is None or made is None or place is None:
            return
        key = place, made.place, made.module
        if key in self._lines or len(self._lines) < MOST:
            self._lines[key] = number

    def tell(self) -> None:
        """The block is over."""
        drafts = self._tables.tensors.drafts
        for (place, *_), number in self._lines.items():
            if number in drafts:
                self._tables.clues.append(Clue("taken out", drafts[number].frame, place, (number,)))
