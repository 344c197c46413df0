"""Weights of a BatchNorm that are written from another's, whose statistics stay behind: 0 and 1, as they were made.

Asked where the copy computes in evaluation mode, since it goes by its statistics there alone.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any, TypeAlias

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source, user_frame
from seegrad.capture.probes.torch_private import MODULE_CALL
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft
from seegrad.model.recording import Clue, Place

Norm: TypeAlias = torch.nn.BatchNorm1d | torch.nn.BatchNorm2d | torch.nn.BatchNorm3d | torch.nn.SyncBatchNorm
"""Torch's layers that keep statistics of batches."""

MOST = 1_000
"""So many layers are remembered."""

LOOKS = 4
"""So many writes to a Parameter are followed to what it's written from, as long as that isn't found."""

FARTHEST = 16
"""So many tensors are looked at on that way."""


class AveragedWeights:
    """The weights that another's were written into, and the copies that compute without its statistics."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._trained: dict[int, weakref.ref[Norm]] = {}  # weight of a layer that moves its statistics → the layer
        self._written: dict[int, tuple[int, Place]] = {}  # weight → the one it was written from, where
        self._looks: dict[int, int] = {}
        self._told: set[Place] = set()

    def normalises(self, layer: Any, call: FrameType) -> None:
        """A layer is about to compute."""
        keeps = isinstance(layer, Norm) and layer.running_mean is not None and layer.weight is not None
        weight = self._tables.tensors.find(layer.weight) if keeps else None
        if weight is None:
            return
        if not layer.training:
            self._computes(layer, weight, call)
        elif weight not in self._trained and len(self._trained) < MOST:
            self._trained[weight] = weakref.ref(layer)

    def _computes(self, layer: Norm, weight: int, call: FrameType) -> None:
        """By its statistics: are they of no batch, although the weight is that of a layer which has seen some?"""
        written = self._written.get(weight)
        if written is None or written[1] in self._told:
            return
        model = self._trained[written[0]]()
        if model is None or not _is_fresh(layer) or _is_fresh(model):
            self._written.pop(weight)  # asked anew when it's written the next time
            return
        user = self._source.place(user_frame(_outermost(call).f_back))
        if user is not None:
            self._told.add(written[1])
            tensors, at = (weight, written[0]), self._tables.frames.next
            self._tables.clues.append(Clue("averaged", at, written[1], tensors))
            self._tables.clues.append(Clue("average used", at, user, tensors))

    def wrote(self, frame: FrameDraft) -> None:
        """A call has written: of interest where it was weights, from those of a layer that is trained."""
        writes = self._tables.writes.drafts if self._trained and frame.place is not None else {}
        for number in frame.writes if writes else ():
            target = self._parameter(writes[number].tensor)
            if target is None or target in self._trained or self._looks.get(target, 0) >= LOOKS:
                continue
            source = next(self._sources(frame, target), None)
            if source is None:
                self._looks[target] = self._looks.get(target, 0) + 1
            elif frame.place is not None and len(self._written) < MOST:
                self._written[target] = source, frame.place

    def _sources(self, frame: FrameDraft, target: int) -> Iterator[int]:
        """Weights of the same shape, of layers that are trained, that it was given or that this was computed of."""
        drafts, frames, waiting = self._tables.tensors.drafts, self._tables.frames.drafts, list(frame.inputs)
        for number in waiting:  # grows while it's read
            leaf, draft = self._parameter(number), drafts.get(number)
            if leaf in self._trained and leaf is not None and drafts[leaf].shape == drafts[target].shape:
                yield leaf
            elif leaf is None and draft is not None and not draft.requires_grad:
                made = frames.get(draft.frame)
                given = made.inputs if made is not None and number in made.outputs else ()
                waiting += [each for each in given if each not in waiting][: max(FARTHEST - len(waiting), 0)]

    def _parameter(self, number: int) -> int | None:
        """The Parameter that it is, or of which it's a `.detach()` or `.data`."""
        draft = self._tables.tensors.drafts.get(number)
        while draft is not None and not draft.parameter and draft.alias_of is not None:
            draft = self._tables.tensors.drafts.get(draft.alias_of) if draft.route in ("data", "detach") else None
        return draft.id if draft is not None and draft.parameter else None


def _is_fresh(layer: Norm) -> bool:
    """Are its statistics what a layer has from the start: 0 and 1?"""
    mean, var = layer.running_mean, layer.running_var
    if mean is None or var is None or not (_torch.is_readable(mean) and _torch.is_readable(var)):
        return False
    return not bool(mean.detach().any()) and bool((var.detach() == 1).all())


def _outermost(call: FrameType) -> FrameType:
    """The call of the outermost module in evaluation mode that leads to this one."""
    found, step = call, call.f_back
    while step is not None:
        if step.f_code is MODULE_CALL:
            if step.f_locals["self"].training:
                break
            found = step
        step = step.f_back
    return found
