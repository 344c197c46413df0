"""An optimiser that steps again and again and has never found a gradient, though what it holds led to the loss.

Where only `autograd.grad` asks for those gradients (an inner loop), nothing else shows that the outer loss has no way
to them. A long loop forgets the way, so the cut on it is searched while the step is made; so is a loss that leads to
them, and that no backward call begins with.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Container, Sequence
from math import prod

from torch.optim.optimizer import Optimizer

from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft
from seegrad.model.recording import Clue, Place

SEVERAL = 3
"""Steps that find nothing: before the first backward call there may be one."""

MOST_LOOKS = 8
"""So often the way is searched: what it leads through may be forgotten, or come later."""


class StepsInVain:
    """The optimisers that have found nothing so far."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._found = weakref.WeakSet[Optimizer]()  # those that have had a gradient, or are told of
        self._steps = weakref.WeakKeyDictionary[Optimizer, int]()

    def stepped(self, optimiser: Optimizer) -> None:
        """An optimiser is about to step."""
        if optimiser in self._found:
            return
        leaves = [leaf for group in optimiser.param_groups for leaf in group["params"]]
        if any(leaf.grad is not None for leaf in leaves):
            self._found.add(optimiser)
            return
        count = self._steps[optimiser] = self._steps.get(optimiser, 0) + 1
        if SEVERAL <= count < SEVERAL + MOST_LOOKS:
            found = (self._tables.tensors.find(leaf) for leaf in leaves)
            self._search(optimiser, [number for number in found if number is not None])

    def _search(self, optimiser: Optimizer, leaves: Sequence[int]) -> None:
        frames, root = self._tables.frames.drafts.values(), self._tables.root
        asked = any(not set(leaves).isdisjoint(frame.wanted) for frame in frames)
        cut = cut_between(self._tables, root, set(leaves)) if asked and root is not None else None
        if cut is not None and cut.place is not None:
            self._found.add(optimiser)
            self._tables.clues.append(Clue("vain", cut.index, cut.place, tuple(leaves), (("op", cut.op),)))


class UncalledLosses:
    """Single numbers with a graph, computed for steps that then find no gradient in what they lead to."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._looks = Counter[int]()
        self._before: dict[Place, tuple[int, int]] = {}  # the last one of a line: its number, its Frame
        self._told = set[Place]()

    def stepped(self, leaves: Sequence[int], since: int) -> None:
        """An optimiser steps, and finds nothing; since then no backward call has begun."""
        self._looks[leaves[0]] += 1
        found = self._loss(set(leaves), since) if self._looks[leaves[0]] <= MOST_LOOKS else None
        frame, number = found if found is not None else (None, 0)
        if frame is None or frame.place is None:
            return
        before = self._before.get(frame.place, (number, 0))
        self._before[frame.place] = (number, frame.index)
        if before[0] != number and not self._is_taken(*before) and frame.place not in self._told:
            self._told.add(frame.place)
            self._tables.clues.append(Clue("no backward", frame.index, frame.place, (number, *leaves)))

    def _loss(self, leaves: set[int], since: int) -> tuple[FrameDraft, int] | None:
        """The last such number that nothing else is computed of."""
        drafts = self._tables.tensors.drafts
        frames = [each for each in self._tables.frames.drafts.values() if each.index > since]
        makers = {number: each for each in frames if each.phase in ("forward", "inplace") for number in each.outputs}
        for number, frame in sorted(makers.items(), key=lambda each: -each[1].index):
            draft = drafts.get(number)
            single = draft is not None and draft.requires_grad and not draft.is_leaf and prod(draft.shape) == 1
            if single and not self._is_taken(number, frame.index) and self._leads_to(number, makers, leaves):
                return frame, number
        return None

    def _leads_to(self, number: int, makers: dict[int, FrameDraft], leaves: set[int]) -> bool:
        drafts, waiting = self._tables.tensors.drafts, [number]
        for each in waiting:  # grows while it's read
            inputs = makers[each].inputs if each in makers else ()
            with_graph = [one for one in inputs if one in drafts and drafts[one].requires_grad]
            if not leaves.isdisjoint(with_graph):
                return True
            waiting += [one for one in with_graph if one not in waiting]
        return False

    def _is_taken(self, number: int, since: int) -> bool:
        """Has a backward call begun with it, or was anything with a graph computed of it?"""
        drafts = self._tables.tensors.drafts
        for each in self._tables.frames.drafts.values():
            if each.index > since and number in each.inputs:
                goes_on = any(one in drafts and drafts[one].requires_grad for one in each.outputs)
                if each.phase == "backward" or goes_on:
                    return True
        return False


def cut_between(tables: Tables, root: int, leaves: Container[int]) -> FrameDraft | None:
    """The Frame at which the graph ends on the way from a loss back to one of these, the nearest to the loss."""
    makers, drafts = _makers(tables), tables.tensors.drafts
    waiting: list[tuple[int, FrameDraft | None]] = [(root, None)] if root in drafts else []
    seen = {root}
    for number, end in waiting:  # grows while it's read
        if number in leaves:
            if end is not None:
                return end
            continue
        cut, frame, draft = end, makers.get(number), drafts[number]
        inputs = () if frame is None else [each for each in frame.inputs if each in drafts]  # what is old is forgotten
        if (draft.is_leaf or not draft.requires_grad) and any(drafts[each].requires_grad for each in inputs):
            cut = cut or frame
        waiting += [(each, cut) for each in inputs if each not in seen]
        seen.update(inputs)
    return None


def _makers(tables: Tables) -> dict[int, FrameDraft]:
    """Tensor → the Frame that made it."""
    found: dict[int, FrameDraft] = {}
    for frame in tables.frames.drafts.values():
        if frame.phase in ("forward", "inplace"):
            for number in frame.outputs:
                if number not in frame.inputs:
                    found.setdefault(number, frame)
    return found
