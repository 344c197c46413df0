"""A closure that an optimiser runs several times in one step: does a backward call add to what the run before has left?

A few leaves are compared: has the step moved one since its gradient came, and is that gradient still there, as it was?
Its numbers are looked at too, on the CPU alone, since what `.data` clears moves no version.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from itertools import islice

import torch
from torch.optim.optimizer import Optimizer

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue, Place

MOST_LEAVES = 3
"""Of each optimiser so many are compared."""

MOST_LOOKS = 16
"""So many times in a program numbers are looked at: what was cleared then is cleared later on too."""


@dataclass(slots=True)
class _LeftByRun:
    """A leaf's gradient, as a backward call has left it: that tensor and its version, and the leaf's own version."""

    leaf: weakref.ref[torch.Tensor]
    gradient: weakref.ref[torch.Tensor]
    version: int | None
    moved: int | None

    def is_left(self) -> bool:
        """Is it still there, although the leaf was moved?"""
        leaf, held = self.leaf(), self.held
        if leaf is None or held is None:
            return False
        return _torch.version(held) == self.version and _torch.version(leaf) != self.moved

    @property
    def held(self) -> torch.Tensor | None:
        """That gradient, where the leaf has no other by now."""
        leaf = self.leaf()
        held = None if leaf is None else leaf.grad
        return held if held is not None and held is self.gradient() else None


@dataclass(slots=True)
class _AddedTo:
    """Of a step's line: the backward call that added, to which leaf, where all was cleared before the step; since."""

    place: Place
    leaf: int
    cleared: Place | None
    frame: int


class ClosureRuns:
    """The steps under way, each with what its closure's last run has left; the lines at which a run added to that."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._under_way: list[tuple[weakref.ref[Optimizer], Place]] = []
        self._runs: list[_LeftByRun] = []
        self._left: list[_LeftByRun] = []  # when the backward call under way began
        self._cleared: Place | None = None  # before the step
        self._looks = MOST_LOOKS
        self._found: dict[Place, _AddedTo] = {}

    def begins(self, optimiser: Optimizer, place: Place | None) -> None:
        """An optimiser is about to step."""
        self._runs, self._left, self._cleared = [], [], None
        self._under_way = [] if place is None else [(weakref.ref(optimiser), place)]

    def ends(self) -> None:
        """It has stepped."""
        self._under_way, self._runs, self._left = [], [], []

    def arrives(self) -> None:
        """A backward call begins."""
        self._left = []
        for _, place in self._under_way:
            if not self._runs:
                self._cleared = self._cleared or self._cleared_before()
            self._left = [each for each in self._runs if each.is_left() and self._has_numbers(each, place)]

    def came(self, call: Place) -> None:
        """It has returned."""
        for optimiser, place in self._under_way:
            number = next((leaf for leaf in map(self._sum, self._left) if leaf is not None), None)
            if number is not None:
                found = self._found.setdefault(place, _AddedTo(call, number, None, 0))
                found.frame, found.cleared = self._tables.frames.now, found.cleared or self._cleared
            held = optimiser()
            groups = [] if held is None else held.param_groups
            given = (leaf for group in groups for leaf in group["params"] if leaf.grad is not None)
            self._runs = [
                _LeftByRun(weakref.ref(leaf), weakref.ref(leaf.grad), _torch.version(leaf.grad), _torch.version(leaf))
                for leaf in islice(given, MOST_LEAVES)
            ]

    def tell(self) -> None:
        """The block is over."""
        for step, added in self._found.items():
            self._tables.clues.append(Clue("run again", added.frame, added.place, (added.leaf,)))
            self._tables.clues.append(Clue("runs again", added.frame, step, (added.leaf,)))
            if added.cleared is not None:
                self._tables.clues.append(Clue("cleared once", added.frame, added.cleared, (added.leaf,)))

    def _sum(self, before: _LeftByRun) -> int | None:
        """The leaf, where what was there when the call began has been added to."""
        leaf, held = before.leaf(), before.held
        if leaf is None or held is None or _torch.version(held) == before.version:
            return None
        return self._tables.tensors.find(leaf)

    def _has_numbers(self, run: _LeftByRun, place: Place) -> bool:
        if place in self._found:
            return True
        held = run.held
        if self._looks <= 0 or held is None or not _torch.is_readable(held):
            return False
        self._looks -= 1
        return bool(held.detach().any())

    def _cleared_before(self) -> Place | None:
        """The line that cleared what the optimiser holds since its step before; of that step the list tells last."""
        uses = iter(reversed(self._tables.uses))
        step = next((use for use in uses if use.kind == "stepped"), None)
        leaves = set() if step is None else {leaf for leaf, _ in step.tensors}
        for use in uses:
            if not leaves.isdisjoint(leaf for leaf, _ in use.tensors):
                if use.kind == "stepped":
                    return None
                if use.kind == "cleared" and use.place is not None:
                    return use.place
        return None
