"""What an optimiser of the user's own keeps for a Parameter, and makes anew of zeros at each step before it's used.

Of each optimiser one Parameter is looked at, in its first steps; torch's own aren't.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from seegrad.capture.probes.variables import is_a
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft
from seegrad.model.recording import Clue, Place

ZEROS = frozenset({"zeros_like", "zeros", "new_zeros"})
DECAYS = frozenset({"mul_", "mul", "__imul__", "lerp_", "lerp", "_foreach_mul_", "_foreach_mul", "_foreach_lerp_"})
"""Ops that leave zeros as they are, or draw them to something: meant for what has been gathered."""

IN_A_ROW = 3
"""So many steps, one after the other, have to begin with zeros,"""

MOST = 16
"""among so many that are looked at."""

FARTHEST = 16
"""So many tensors are looked at on the way from what is kept back to the zeros."""

Kept = dict[str, int]
"""Name in the optimiser's state → the tensor's number."""


@dataclass(slots=True)
class _StepsSeen:
    """What was seen of an optimiser's steps so far."""

    steps: int = 0
    anew: dict[str, int] = field(default_factory=dict)  # name in its state → steps in a row


@dataclass(frozen=True, slots=True)
class _StepLookedAt:
    """A step that is looked at: of which Parameter, what was kept for it, and the Frame with which it begins."""

    optimiser: weakref.ref[Optimizer]
    leaf: torch.Tensor
    kept: Kept
    begins: int


class CarriedStates:
    """Each optimiser's, until it has carried over what it keeps."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._seen = weakref.WeakKeyDictionary[Optimizer, _StepsSeen]()
        self._now: _StepLookedAt | None = None
        self._told: set[Place] = set()

    def begins(self, optimiser: Optimizer) -> None:
        """The user's own code is about to step."""
        seen = self._seen.setdefault(optimiser, _StepsSeen())
        seen.steps += 1
        self._now = None
        leaf = next(_kept_for(optimiser), None) if seen.steps <= MOST else None
        kept = self._kept(optimiser, leaf) if leaf is not None else {}
        if leaf is not None and kept:
            self._now = _StepLookedAt(weakref.ref(optimiser), leaf, kept, self._tables.frames.next)

    def ends(self, optimiser: Optimizer) -> None:
        """It has stepped."""
        now = self._now
        if now is None or now.optimiser() is not optimiser:
            return
        self._now, seen = None, self._seen[optimiser]
        found = self._kept(optimiser, now.leaf)
        for name, before in now.kept.items():
            zeros = self._zeros(now, before, found[name]) if found.get(name, before) != before else None
            seen.anew[name] = seen.anew.get(name, 0) + 1 if zeros is not None else 0
            leaf = self._tables.tensors.find(now.leaf)
            if zeros is not None and leaf is not None and seen.anew[name] == IN_A_ROW:
                self._tell(zeros, leaf, name)

    def _tell(self, zeros: FrameDraft, leaf: int, name: str) -> None:
        if zeros.place is not None and zeros.place not in self._told:
            self._told.add(zeros.place)
            self._tables.clues.append(Clue("zeros", zeros.index, zeros.place, (leaf,), (("name", name),)))

    def _kept(self, optimiser: Optimizer, leaf: torch.Tensor) -> Kept:
        state = optimiser.state.get(leaf)
        held = state.items() if type(state) is dict else ()
        numbers = {
            str(name): self._tables.tensors.find(each)
            for name, each in held
            if is_a(each, torch.Tensor) and each.shape == leaf.shape
        }
        return {name: number for name, number in numbers.items() if number is not None}

    def _zeros(self, now: _StepLookedAt, before: int, after: int) -> FrameDraft | None:
        """The call that made the zeros of which the new one was gathered; None where the old one has come to anything.

        Zeros that are drawn on twice gather something within the step.
        """
        drafts, frames = self._tables.tensors.drafts, self._tables.frames
        held = range(now.begins, frames.next)
        calls = [frames.drafts[number] for number in held if number in frames.drafts]
        old = drafts.get(before)
        if old is None or self._tables.tensors.alive(before) is not None:
            return None
        if any(drafts[each].storage == old.storage for call in calls for each in call.inputs if each in drafts):
            return None
        for made in self._makers(calls, after):
            drawn = [each for each in calls if not set(made.outputs).isdisjoint(each.inputs)]
            if made.op in ZEROS and drawn and [each.op in DECAYS for each in drawn].count(True) == 1:
                return made if drawn[0].op in DECAYS else None
        return None

    def _makers(self, calls: list[FrameDraft], tensor: int) -> Iterator[FrameDraft]:
        """The calls of the step of which it comes, the newest first."""
        by_output = {each: call for call in calls if call.phase == "forward" for each in call.outputs}
        waiting = [tensor]
        for each in waiting:  # grows while it's read
            made = by_output.get(each)
            if made is not None:
                yield made
                fresh = [one for one in made.inputs if one not in waiting]
                waiting += fresh[: max(FARTHEST - len(waiting), 0)]


def _kept_for(optimiser: Optimizer) -> Iterator[Any]:
    """What it holds and keeps something for."""
    held = (leaf for group in optimiser.param_groups for leaf in group["params"])
    return (leaf for leaf in held if leaf.grad is not None and optimiser.state.get(leaf))
