"""A mask that was multiplied into weights, and steps behind it that move them away from its zeros again.

Whether they have is asked once, after two steps, and on the CPU alone: a look at numbers waits for a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from seegrad.capture.probes.variables import is_a
from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue, Place

SEVERAL = 2
"""Steps behind the mask: one may be followed by the mask again."""

LARGEST = 1_000_000
"""A mask of more numbers isn't kept."""


@dataclass(frozen=True, slots=True)
class _Mask:
    """Of a leaf: what was multiplied into it last, where; the steps since."""

    values: torch.Tensor
    place: Place
    steps: int = 0


class MaskedWeights:
    """By the number of the leaf."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._masks: dict[int, _Mask] = {}

    def multiplied(self, args: Sequence[Any], place: Place | None) -> None:
        """The user's code is about to multiply something in place."""
        target, by = args[0], args[1]
        if not is_a(target, torch.Tensor) or not is_a(by, torch.Tensor) or place is None or by.requires_grad:
            return
        here = by.device.type == target.device.type == "cpu"  # elsewhere a look at its numbers would wait
        leaf = self._parameter(target) if here and 1 < by.numel() <= LARGEST else None
        if leaf is not None:
            self._masks[leaf] = _Mask(by.detach().clone(), place)

    def _parameter(self, tensor: torch.Tensor) -> int | None:
        """The Parameter whose bytes it has."""
        number = self._tables.tensors.find(tensor)
        draft = self._tables.tensors.drafts.get(number) if number is not None else None
        while draft is not None and not draft.parameter and draft.alias_of is not None:
            draft = self._tables.tensors.drafts.get(draft.alias_of)
        return draft.id if draft is not None and draft.parameter else None

    def stepped(self, known: Sequence[tuple[int, torch.Tensor]], place: Place | None) -> None:
        """An optimiser is about to step on these leaves: tell of those that its last steps have moved off the mask."""
        lines: dict[Place, list[int]] = {}
        for number, leaf in known:
            mask = self._masks.get(number)
            if mask is None or mask.steps < SEVERAL:
                self._masks |= {} if mask is None else {number: replace(mask, steps=mask.steps + 1)}
            elif _is_left(leaf, self._masks.pop(number).values):
                lines.setdefault(mask.place, []).append(number)
        for masked, leaves in lines.items() if place is not None else ():
            now = self._tables.frames.now
            self._tables.clues.append(Clue("masked", now, masked, tuple(leaves)))
            self._tables.clues.append(Clue("unmasked", now, place or masked, tuple(leaves)))


def _is_left(leaf: torch.Tensor, mask: torch.Tensor) -> bool:
    """Is it a mask of zeros and ones, and does the leaf hold other numbers where its zeros are?"""
    zeros = mask == 0
    whole = bool((zeros | (mask == 1)).all()) and bool(zeros.any())
    return whole and bool(((leaf.detach() != 0) & zeros).any())
