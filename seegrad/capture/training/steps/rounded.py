"""Parameters of 16 bits that a step leaves as they were: the change is less than half of what they can tell apart.

A few steps are looked at, the first, the second, the fourth …, and of each Parameter its first numbers; on the CPU
alone, since another device would have to be waited for.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch.optim.optimizer import Optimizer

from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue, Place

HALVES = torch.bfloat16, torch.float16
MOST_NUMBERS, MOST_LEAVES = 4096, 64
"""So many numbers of a Parameter are looked at, of so many Parameters."""

FEWEST = 8
"""So many numbers has a Parameter whose sums are looked at."""

OFTEN = 64
"""After so many sums it is told: an average of weights that have only begun to move has little to add."""

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
        halved = halved_by(self._tables, leaves.keys()) or place
        if halved is not None:
            stayed, due = _total(leaves)
            facts = ("percent", str(100 * stayed // due)), ("rate", f"{looks.rate:g}")
            self._tables.clues.append(Clue("rounded", self._tables.frames.now, halved, tuple(leaves), facts))


# -- what the user's own line adds to such a Parameter

ADDS = frozenset({"add_", "sub_", "__iadd__", "__isub__", "lerp_"})


@dataclass(slots=True)
class _Adds:
    """Of one Parameter: who put 16 bits there, how often a line has added to it, how many of its numbers stayed."""

    halved: Place | None
    times: int = 0
    stayed: int = 0
    due: int = 0


@dataclass(frozen=True, slots=True)
class _Adding:
    """A line that adds is under way: the numbers before it, and which of them it adds something to."""

    number: int
    before: torch.Tensor
    due: torch.Tensor


class RoundedSums:
    """Averages of weights, and steps by hand: of each Parameter until a line has changed most of what it was to."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._adds: dict[int, _Adds] = {}
        self._over = set[int]()
        self._now: _Adding | None = None

    def begins(self, op: str, args: Sequence[object]) -> None:
        """The user's code is about to add: looked at the first time, the second, the fourth …"""
        self._now = None
        target, other = (*args, None, None)[:2]
        if not isinstance(target, torch.nn.Parameter) or not isinstance(other, torch.Tensor) or not _is_half(target):
            return
        number = self._tables.tensors.find(target)
        if number is None or number in self._over or other.shape != target.shape or target.numel() < FEWEST:
            return
        if number not in self._adds:  # later on, what was written once may be forgotten
            self._adds[number] = _Adds(halved_by(self._tables, {number}))
        adds = self._adds[number]
        adds.times += 1
        if not adds.times & (adds.times - 1) and len(self._adds) <= MOST_LEAVES:
            before, added = _first(target).clone(), _first(other).to(target.device)
            self._now = _Adding(number, before, (added != before) if op == "lerp_" else (added != 0))

    def ends(self, target: object) -> None:
        """It has added."""
        now, self._now = self._now, None
        if now is None or not isinstance(target, torch.Tensor):
            return
        adds, due = self._adds[now.number], int(now.due.sum())
        stayed = int((now.due & (_first(target) == now.before)).sum())
        if not due or not _stays((stayed, due)):
            self._over.add(now.number)
            return
        adds.stayed, adds.due = adds.stayed + stayed, adds.due + due
        if adds.times >= OFTEN:
            self._over.add(now.number)
            self._tell(now.number, adds)

    def _tell(self, number: int, adds: _Adds) -> None:
        frame = self._tables.frames.now
        place = adds.halved or self._tables.frames.drafts[frame].place
        if place is not None:
            facts = (("percent", str(100 * adds.stayed // adds.due)),)
            self._tables.clues.append(Clue("absorbed", frame, place, (number,), facts))


def _is_half(tensor: torch.Tensor) -> bool:
    return tensor.dtype in HALVES and tensor.device.type == "cpu" and tensor.layout is torch.strided


def halved_by(tables: Tables, leaves: Set[int]) -> Place | None:
    """The line that put numbers of 16 bits into the place of others."""
    writes = (each for each in tables.writes.drafts.values() if each.op == "set data")
    return next((each.place for each in writes if each.tensor in leaves), None)


def _moving(optimiser: Optimizer) -> Iterator[tuple[torch.Tensor, float]]:
    """What the step is to change, of 16 bits and on the CPU, and at what rate."""
    for group in optimiser.param_groups:
        for leaf in group["params"]:
            if _is_half(leaf) and leaf.grad is not None and leaf.grad.layout is torch.strided:
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
