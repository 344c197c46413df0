"""Writes that change nothing: into a result that a module computes anew before each use, and copies onto themselves.

Of the first kind are a pruned weight and a parametrised one: without a gradient nobody writes into a result of
Parameters but to change what the module holds, and whoever computes it anew goes by the Parameter, which stays as it
is. Asked once, at the next step of an optimiser.
"""

from __future__ import annotations

import re

from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft
from seegrad.model.recording import Clue, Place

MOST = 1_000
"""So many writes are remembered up to the next step."""

DEEPEST = 8
"""So many calls lie at most between a Parameter and the weight that a module computes of it."""

ATTRIBUTE = re.compile(r"\w\.\w+(?:\[[^\]]*\])?(?:\.data)?(?:\.\w+_\(|\s*(?:\[[^\]]*\]\s*)?[-+*/]?=[^=])|_\(\s*\w+\.\w")
"""`m.weight.copy_(`, `m.weight.data.mul_(`, `m.weight *=`, `init.normal_(m.weight`: what an object holds is written."""


class WrittenResults:
    """Those since the last step."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._waiting: list[tuple[int, int]] = []  # Frame, tensor
        self._told: set[tuple[Place, int]] = set()  # the copies onto themselves

    def wrote(self, frame: FrameDraft, tensor: int) -> None:
        """A call has written that tensor."""
        if frame.op == "copy_":
            self._copied(frame, tensor)
        draft, hidden = self._tables.tensors.drafts[tensor], not frame.grad_enabled
        while draft.alias_of is not None and draft.route in ("data", "detach"):
            draft, hidden = self._tables.tensors.drafts[draft.alias_of], True
        made = self._tables.frames.drafts.get(draft.frame)
        result = draft.requires_grad and not draft.is_leaf
        result |= made is not None and not made.grad_enabled and draft.id in made.outputs  # computed on the spot
        if hidden and result and len(self._waiting) < MOST:
            self._waiting.append((frame.index, draft.id))

    def _copied(self, frame: FrameDraft, tensor: int) -> None:
        """Tell of a Parameter that is given the numbers which it holds: its own `state_dict()`, loaded."""
        drafts, leaf = self._tables.tensors.drafts, tensor
        bytes_ = {(drafts[each].storage, drafts[each].span, drafts[each].shape) for each in frame.inputs}
        while not drafts[leaf].parameter and (of := drafts[leaf].alias_of) is not None:
            leaf = of
        mine = len(frame.inputs) == 2 and len(bytes_) == 1 and drafts[leaf].parameter
        if frame.place is not None and mine and (frame.place, leaf) not in self._told and len(self._told) < MOST:
            self._told.add((frame.place, leaf))
            self._tables.clues.append(Clue("itself", frame.index, frame.place, (leaf,), (("op", frame.op),)))

    def stepped(self) -> None:
        """An optimiser is about to step: tell of what was written, is gone, and has been computed anew."""
        waiting, self._waiting = self._waiting, []
        for at, tensor in waiting:
            leaves = self._computed_anew(at, tensor) if self._tables.tensors.alive(tensor) is None else ()
            frame = self._tables.frames.drafts.get(at)
            if leaves and frame is not None and frame.place is not None and ATTRIBUTE.search(frame.place.code):
                self._tables.clues.append(Clue("anew", at, frame.place, leaves, (("op", frame.op),)))

    def _computed_anew(self, at: int, tensor: int) -> tuple[int, ...]:
        """The Parameters of which a later call of the same kind made such a tensor, where nothing has read this one."""
        drafts, frames = self._tables.tensors.drafts, self._tables.frames.drafts
        ref = drafts.get(tensor)
        made = frames.get(ref.frame) if ref is not None else None
        if ref is None or made is None or made.index >= at or tensor not in made.outputs or tensor in made.inputs:
            return ()
        leaves = tuple(each for each in self._behind(made) if drafts[each].shape == ref.shape)
        again = False
        since = range(at + 1, self._tables.frames.next)
        for each in (frames[number] for number in since if number in frames):
            if each.phase == "forward" and any(drafts[one].storage == ref.storage for one in each.inputs):
                return ()
            fresh = [one for one in each.outputs if one in drafts and drafts[one].shape == ref.shape]
            again |= bool(fresh) and each.op == made.op and set(leaves) <= self._behind(each)
        return leaves if again else ()

    def _behind(self, made: FrameDraft) -> set[int]:
        """The Parameters that a call was given, or what it was given was computed of, a few calls before it."""
        drafts, frames = self._tables.tensors.drafts, self._tables.frames.drafts
        found, waiting = set[int](), [made]
        for each in waiting:  # grows while it's read
            known = [drafts[number] for number in each.inputs if number in drafts]
            if len(known) < len(each.inputs):
                return set()  # of what is forgotten nothing is known
            found |= {draft.id for draft in known if draft.parameter}
            before = (frames.get(draft.frame) for draft in known if not draft.parameter)
            fresh = [one for one in before if one is not None and one not in waiting]
            waiting += fresh[: max(DEEPEST - len(waiting), 0)]
        return found
