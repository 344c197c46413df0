"""Optimisers that a line makes anew for each step, of the same Parameters: what they gather of gradients is gone."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from torch.optim.optimizer import Optimizer

from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue, Place

SEVERAL = 4
"""So many have to be made so, each for one step."""

MOST = 1_000
"""So many lines, each with one leaf, are remembered."""


@dataclass(slots=True)
class _Making:
    """The Frame of the first step; how many optimisers; whether one has stepped again."""

    first: int
    count: int = 0
    again: bool = False


class MadeAgain:
    """The lines that make them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._seen = weakref.WeakSet[Optimizer]()  # those that have stepped
        self._lines: dict[tuple[Place, int], _Making] = {}

    def stepped(self, optimiser: Optimizer, place: Place | None) -> None:
        """One that was made on that line is about to step for the first time, the second, the fourth, …"""
        leaves = [leaf for group in optimiser.param_groups for leaf in group["params"]]
        number = self._tables.tensors.find(leaves[0]) if leaves else None
        if place is None or number is None or not _gathers(optimiser) or len(self._lines) >= MOST:
            return
        line = self._lines.setdefault((place, number), _Making(self._tables.frames.now))
        line.again |= optimiser in self._seen
        line.count += optimiser not in self._seen
        self._seen.add(optimiser)
        if line.count == SEVERAL and not line.again:
            known = (self._tables.tensors.find(leaf) for leaf in leaves)
            numbers = tuple(each for each in known if each is not None)
            facts = (("kind", type(optimiser).__name__), ("since", str(line.first)))
            self._tables.clues.append(Clue("made again", self._tables.frames.now, place, numbers, facts))


def _gathers(optimiser: Optimizer) -> bool:
    """Does it go by more than the newest gradients? Of `LBFGS` one step is many."""
    own = optimiser.defaults
    return "max_iter" not in own and bool(own.get("betas") or own.get("momentum") or "alpha" in own or "rho" in own)
