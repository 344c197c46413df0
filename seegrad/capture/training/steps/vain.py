"""An optimiser that steps again and again and has never found a gradient, though what it holds led to the loss.

Where only `autograd.grad` asks for those gradients (an inner loop), nothing else shows that the outer loss has no way
to them. A long loop forgets the way, so the cut on it is searched while the step is made.
"""

from __future__ import annotations

import weakref
from collections.abc import Container, Sequence

from torch.optim.optimizer import Optimizer

from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft
from seegrad.model.recording import Clue

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
