"""Parameters of 16 bits that a step leaves as they were: the change is less than half of what they can tell apart.

A few steps are looked at, the first, the second, the fourth …, and of each Parameter its first numbers; on the CPU
alone, since another device would have to be waited for.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch.optim.optimizer import Optimizer

from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue, Place

HALVES = torch.bfloat16, torch.float16
MOST_NUMBERS, MOST_LEAVES = 4096, 64
"""So many numbers of a Parameter are looked at, of so many Parameters."""

IN_A_ROW = 3
"""Steps, one after the other of those looked at, by a rate that doesn't rise: before, it may be warming up."""

MOST_STAY = 0.5
"""Such a share of an optimiser's numbers with a gradient has to stay at each of them,"""

ALL_STAY = 0.9
"""or such a share of one Parameter's: a norm's ones stand further apart than the weights around them."""


@dataclass(slots=True)
class _Looks:
    """What was seen of an optimiser's steps so far."""

    steps: int = 0
    rate: float = 0.0  # at the last step looked at
    stays: int = 0  # steps in a row that left something as it was
    most: bool = True  # most of all that the optimiser holds, at each of them
    stuck: dict[int, tuple[int, int]] = field(default_factory=dict)  # Parameter → numbers that stayed, of how many

    def follow(self, counts: Mapping[int, tuple[int, int]]) -> None:
        """One more step: of each Parameter how many numbers stayed, of how many with a gradient."""
        before = self.stuck if self.stays else dict.fromkeys(counts, (0, 0))
        both = {leaf: (a + before[leaf][0], b + before[leaf][1]) for leaf, (a, b) in counts.items() if leaf in before}
        stayed, due = _total(counts)
        self.most = self.most and stayed > MOST_STAY * due
        self.stays += 1
        self.stuck = {leaf: each for leaf, each in both.items() if each[0] and (self.most or _stays(counts[leaf]))}

    @property
    def told(self) -> dict[int, tuple[int, int]]:
        """What has stayed so far."""
        return {leaf: each for leaf, each in self.stuck.items() if self.most or _stays(each)}


def _stays(count: tuple[int, int]) -> bool:
    return count[0] >= ALL_STAY * count[1]


def _total(counts: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    return sum(each[0] for each in counts.values()), sum(each[1] for each in counts.values())


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A step that is looked at: the numbers before it."""

    looks: _Looks
    place: Place | None
    before: list[tuple[torch.Tensor, torch.Tensor]]


class RoundedSteps:
    """Each optimiser's, until one of its steps has changed most numbers."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._looks = weakref.WeakKeyDictionary[Optimizer, _Looks]()
        self._over = weakref.WeakSet[Optimizer]()
        self._now: _UnderWay | None = None

    def begins(self, optimiser: Optimizer, place: Place | None) -> None:
        """Torch's own code is about to step."""
        self._now = None
        if optimiser in self._over:
            return
        looks = self._looks.setdefault(optimiser, _Looks())
        looks.steps += 1
        found = [] if looks.steps & (looks.steps - 1) else list(islice(_moving(optimiser), MOST_LEAVES))
        if not found:
            return
        rate = max(each for _, each in found)
        if rate > looks.rate:
            looks.stays, looks.most = 0, True
        looks.rate = rate
        self._now = _UnderWay(looks, place, [(leaf, _first(leaf).clone()) for leaf, _ in found])

    def ends(self, optimiser: Optimizer) -> None:
        """It has stepped."""
        now, self._now = self._now, None
        if now is None:
            return
        counts = dict[int, tuple[int, int]]()
        for leaf, before in now.before:
            number = self._tables.tensors.find(leaf) if leaf.grad is not None else None
            if number is not None and (count := _counts(leaf, before))[1]:
                counts[number] = count
        if not counts:
            return
        looks = now.looks
        looks.follow(counts)
        if not looks.told:
            self._over.add(optimiser)
        elif looks.stays >= IN_A_ROW:
            self._over.add(optimiser)
            self._tell(looks, now.place)

    def _tell(self, looks: _Looks, place: Place | None) -> None:
        leaves = looks.told
        halved = self._halved(leaves.keys()) or place
        if halved is not None:
            stayed, due = _total(leaves)
            facts = ("percent", str(100 * stayed // due)), ("rate", f"{looks.rate:g}")
            self._tables.clues.append(Clue("rounded", self._tables.frames.now, halved, tuple(leaves), facts))

    def _halved(self, leaves: Set[int]) -> Place | None:
        """The line that put numbers of 16 bits into the place of others."""
        writes = (each for each in self._tables.writes.drafts.values() if each.op == "set data")
        return next((each.place for each in writes if each.tensor in leaves), None)


def _moving(optimiser: Optimizer) -> Iterator[tuple[torch.Tensor, float]]:
    """What the step is to change, of 16 bits and on the CPU, and at what rate."""
    for group in optimiser.param_groups:
        for leaf in group["params"]:
            half = leaf.dtype in HALVES and leaf.device.type == "cpu" and leaf.layout is torch.strided
            if half and leaf.grad is not None and leaf.grad.layout is torch.strided:
                rate = float(group.get("lr", 0))
                if rate:
                    yield leaf, rate


def _first(tensor: torch.Tensor) -> torch.Tensor:
    """Its first numbers, by rows."""
    detached = tensor.detach()
    while detached.dim() > 1 and detached[0].numel() >= MOST_NUMBERS:
        detached = detached[0]
    return detached.reshape(-1)[:MOST_NUMBERS]


def _counts(leaf: torch.Tensor, before: torch.Tensor) -> tuple[int, int]:
    """How many of its first numbers stayed, of how many with a gradient."""
    sloped = _first(leaf.grad) != 0 if leaf.grad is not None else torch.zeros_like(before, dtype=torch.bool)
    return int((sloped & (_first(leaf) == before)).sum()), int(sloped.sum())
