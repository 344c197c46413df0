"""Weights of which all rows are one and the same, and get one and the same gradient: no step tells them apart.

Looked at before the first step of an optimiser, the second, the fourth; on the CPU alone, since another device would
have to be waited for.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import torch
from torch.optim.optimizer import Optimizer

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue, Place

LOOKS = 3
"""So many times they have to be found alike: what dropout tells apart isn't."""

MOST_NUMBERS = 1 << 22
"""Larger ones aren't looked at."""

CLOSE = 1e-4
"""Two rows' gradients may differ by such a part of the largest number."""


class AlikeRows:
    """Of each optimiser the leaves whose rows were alike at every look so far, with the line that wrote them first."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._found = weakref.WeakKeyDictionary[Optimizer, list[dict[int, Place | None]]]()

    def look(self, optimiser: Optimizer, place: Place | None) -> None:
        """It is about to step."""
        before = self._found.setdefault(optimiser, [])
        if len(before) >= LOOKS or (before and not before[-1]):
            return
        alike = set(self._alike(optimiser))
        if before:
            before.append({leaf: line for leaf, line in before[-1].items() if leaf in alike})
        else:
            before.append({leaf: self._written(leaf) for leaf in alike})
        found = before[-1]
        if len(before) == LOOKS and found and place is not None:
            known = next(filter(None, found.values()), None)
            told = tuple(sorted(leaf for leaf, line in found.items() if line == known))
            facts = (("filled", str(int(known is not None))),)
            self._tables.clues.append(Clue("alike", self._tables.frames.now, known or place, told, facts))

    def _written(self, leaf: int) -> Place | None:
        """The line that wrote it last; later ones are steps."""
        storage, frames = self._tables.tensors.drafts[leaf].storage, self._tables.frames.drafts
        writes = [each for each in self._tables.writes.drafts.values() if each.storage == storage]
        return frames[writes[-1].frame].place if writes and writes[-1].frame in frames else None

    def _alike(self, optimiser: Optimizer) -> Iterator[int]:
        for leaf in (leaf for group in optimiser.param_groups for leaf in group["params"]):
            number = self._tables.tensors.find(leaf) if _is_alike(leaf) else None
            if number is not None:
                yield number


def _is_alike(leaf: torch.Tensor) -> bool:
    gradient = leaf.grad
    if gradient is None or leaf.dim() < 2 or len(leaf) < 2 or not 0 < leaf.numel() <= MOST_NUMBERS:
        return False
    if not (_torch.is_readable(leaf) and _torch.is_readable(gradient)) or not leaf.is_floating_point():
        return False
    first, last = leaf.detach()[0], leaf.detach()[-1]
    if first.flatten()[0] != last.flatten()[0] or not bool((leaf.detach() == first).all()) or not bool(first.any()):
        return False  # states may begin at 0, and what is told of weights that do stands elsewhere
    largest = float(gradient.abs().max())
    return largest > 0 and float((gradient - gradient[0]).abs().max()) <= CLOSE * largest
