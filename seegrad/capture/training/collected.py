"""Lists and dicts of the user's in which results lie with their graphs: what they hold lives on from lap to lap.

They are looked at when a backward begins, at the fourth, the eighth, the sixteenth …, and where one is joined to a
tensor: the call that does it is the last that is seen of what a validation loop has collected.
"""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any

import torch

from seegrad.capture.probes.places import Source, nodes
from seegrad.capture.probes.source_text import put_into, texts
from seegrad.capture.probes.variables import Space, attributes, is_a, variables
from seegrad.capture.tables import Tables
from seegrad.model.recording import Collected

JOINS = frozenset({"cat", "concat", "concatenate", "stack", "vstack", "hstack"})
"""Calls that join what a list holds."""

SEVERAL = 3
"""So many results make a collection."""

LONGEST = 10_000
"""Longer ones hold data."""

PLAIN = frozenset({list, tuple, dict, torch.Tensor, int, float, str, bool, type(None)})
"""Types of items that have no attributes to look at."""

MOST = 64
"""So many of its results are told; an item that holds more is no result."""

MOST_LOOKED_INTO = 1_000
"""So many of its items are looked into."""


class Collections:
    """All that were seen, each once."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._laps: list[int] = []  # the Frames at which backward calls began
        self._told: set[str] = set()
        self._joining: set[tuple[str, int]] = set()  # lines whose lists were looked for

    def lap(self, frames: Sequence[FrameType]) -> None:
        """A backward call begins."""
        self._laps.append(self._tables.frames.now)
        count = len(self._laps)
        if count > SEVERAL and count & (count - 1) == 0:
            self.look(frames)

    def look(self, spaces: Sequence[Space]) -> None:
        """Find the collections that hold results of several laps."""
        for name, value in _collections(spaces):
            if name not in self._told:
                held = self._results(value)
                laps = {bisect(self._laps, frame): number for number, frame in reversed(held)}
                if len(laps) >= SEVERAL:
                    self._tell(name, held, spaces)
                    self._tables.lasting.update(laps[lap] for lap in sorted(laps)[:SEVERAL])

    def joined(self, args: tuple[Any, ...], frames: Sequence[FrameType]) -> None:
        """A call is about to join the tensors of a list."""
        given = args[0] if args and is_a(args[0], list | tuple) else ()
        line = (frames[-1].f_code.co_filename, frames[-1].f_lineno or 0) if frames else ("", 0)
        if len(given) < SEVERAL or line in self._joining or not torch.is_grad_enabled():
            return
        self._joining.add(line)
        held = self._results(given)
        if len(held) >= SEVERAL:
            name = next((name for name, value in _collections(frames[-1:]) if value is given), "")
            if name and name not in self._told:
                self._tell(name, held, frames)

    def _results(self, value: Any) -> list[tuple[int, int]]:
        """(number, Frame) of the results with a graph that it holds."""
        found = [draft for each in _tensors(value) if (draft := self._tables.tensors.draft(each)) is not None]
        return [(draft.id, draft.frame) for draft in found if draft.requires_grad and not draft.is_leaf]

    def _tell(self, name: str, held: Sequence[tuple[int, int]], spaces: Sequence[Space]) -> None:
        self._told.add(name)
        frames = [each for each in spaces if not isinstance(each, dict)]
        files = [file for each in spaces if isinstance(each, dict) and isinstance(file := each.get("__file__"), str)]
        wholes = [(file, each) for file in files for each in nodes(self._source.text(file))[:1]]
        looked_through = texts(self._source, frames, None, name.rpartition(".")[2])
        place = put_into(self._source, [*looked_through, *wholes], name)
        numbers = tuple(number for number, _ in held[:MOST])
        self._tables.collected.append(Collected(name, self._tables.frames.now, place, numbers))


def _tensors(value: Any) -> list[torch.Tensor]:
    """Those in a collection, and right in the first of its items: small lists and dicts, records.

    Not further down: what a thousand items refer to together would be gone through a thousand times.
    """
    items = list(_items(value))
    looked_into = items[:MOST_LOOKED_INTO]
    small = [
        each for item in looked_into if is_a(item, list | tuple | dict) and len(item) <= MOST for each in _items(item)
    ]
    records = {str(n): each for n, each in enumerate(looked_into) if type(each) not in PLAIN}
    return [each for each in (*items, *small, *attributes(records).values()) if is_a(each, torch.Tensor)]


def _items(value: Any) -> Iterable[Any]:
    items: Iterable[Any] = value.values() if is_a(value, dict) else value
    return items


def _collections(spaces: Sequence[Space]) -> list[tuple[str, Any]]:
    """(name, value) for the lists, deques and dicts among variables, and among the attributes of the user's objects."""
    found: list[tuple[str, Any]] = []
    for space in spaces:
        held = dict(variables(space))
        for name, value in (*held.items(), *attributes(held).items()):
            if is_a(value, deque):
                value = list(value)
            if is_a(value, list | tuple | dict) and len(value) <= LONGEST:
                found.append((name, value))
    return found
