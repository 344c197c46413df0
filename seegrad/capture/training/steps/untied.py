"""Two modules that held one Parameter, until something made new ones of all and gave each its own: `to_empty()`.

A module tells of each Parameter that it's given, so what was tied is known; what such a call puts into its place it
doesn't tell of, so whoever unties on purpose, by an assignment, isn't meant.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import torch
from torch.optim.optimizer import Optimizer

from seegrad.capture.probes.torch_private import WeakTensor
from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue, Place

MOST = 10_000
"""So many Parameters are remembered."""

Slot = tuple[weakref.ref[torch.nn.Module], str]
"""A module, and what it calls a Parameter."""


@dataclass(frozen=True, slots=True)
class _Tie:
    """Two slots that hold one Parameter."""

    first: Slot
    second: Slot


class TiedParameters:
    """All that were tied while the block ran."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._given: dict[int, tuple[WeakTensor, Slot]] = {}  # by `id`: who was given it first
        self._ties: list[_Tie] = []

    def given(self, module: torch.nn.Module, name: str, new: torch.nn.Parameter) -> None:
        """A module is about to hold a Parameter under a name."""
        slot = weakref.ref(module), name
        ref, first = self._given.get(id(new), (None, slot))
        if ref is not None and ref() is new and _held(first) is new:
            self._ties += [_Tie(first, slot)] if first != slot and len(self._ties) < MOST else []
        elif len(self._given) < MOST:
            self._given[id(new)] = WeakTensor(new), slot

    def look(self, optimiser: Optimizer) -> None:
        """The optimiser is about to step: are two of its Parameters with a gradient of such slots?"""
        if not self._ties:
            return
        leaves = {id(leaf) for group in optimiser.param_groups for leaf in group["params"] if leaf.grad is not None}
        for tie in tuple(self._ties):
            one, other = _held(tie.first), _held(tie.second)
            if one is None or other is None or one is other or not {id(one), id(other)} <= leaves:
                continue
            self._ties.remove(tie)
            if not (self._was_given(one) or self._was_given(other)):
                self._tell(one, other)

    def _was_given(self, parameter: torch.Tensor) -> bool:
        """Has an assignment put it there?"""
        ref, _ = self._given.get(id(parameter), (None, None))
        return ref is not None and ref() is parameter

    def _tell(self, one: torch.Tensor, other: torch.Tensor) -> None:
        numbers = [number for each in (one, other) if (number := self._tables.tensors.find(each)) is not None]
        place = self._made(numbers[-1]) if len(numbers) == 2 else None
        if place is not None:
            self._tables.clues.append(Clue("untied", self._tables.frames.now, place, tuple(numbers)))

    def _made(self, tensor: int) -> Place | None:
        """The line that made its bytes."""
        drafts, frames = self._tables.tensors.drafts, self._tables.frames.drafts
        first = min(each.frame for each in drafts.values() if each.storage == drafts[tensor].storage)
        return frames[first].place if first in frames else None


def _held(slot: Slot) -> torch.Tensor | None:
    module, name = slot[0](), slot[1]
    return (
        None
        if module is None
        else dict(torch.nn.Module.named_parameters(module, recurse=False, remove_duplicate=False)).get(name)
    )
