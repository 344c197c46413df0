"""Which line copied a tensor's numbers, and no more: a leaf of its own, that a graph leads to in the other's place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from seegrad.diagnose.evidence import ancestors
from seegrad.model.recording import Frame, Recording

COPIES = frozenset({"clone", "copy_", "tensor", "as_tensor", "to", "contiguous", "set data"})
"""Ops whose result holds the numbers that went in."""

MOST_STEPS = 6
"""So many copies of copies are gone back."""


@dataclass(frozen=True, slots=True)
class Copy:
    """The Frame that took the numbers, and the leaf that has them, or what became of them."""

    frame: Frame
    leaf: int


class CopiedNumbers:
    """Who wrote or made the bytes of each leaf."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._onto: dict[int, list[Frame]] = {}  # storage → the Frames that made or wrote its bytes
        self._first: dict[int, int] = {}  # tensor → the storage that it had before somebody set its `.data`
        for frame in recording.frames:
            if frame.phase in ("forward", "inplace"):
                for storage in self._storages(frame):
                    self._onto.setdefault(storage, []).append(frame)

    def of(self, tensor: int, leaves: Iterable[int]) -> Copy | None:
        """The copy of a tensor, or of a copy of it, among these leaves; None where none of them is one."""
        found = ((leaf, self._way(tensor, leaf)) for leaf in leaves if leaf != tensor)
        return next((Copy(frame, leaf) for leaf, frame in found if frame is not None), None)

    def _way(self, tensor: int, leaf: int) -> Frame | None:
        """The Frame on the way from `tensor` to `leaf` that took the tensor's own numbers."""
        if self._recording.tensors[leaf].storage == self._recording.tensors[tensor].storage:
            return self._handed_on(tensor, leaf)
        waiting, seen = [leaf], {leaf}
        for _ in range(MOST_STEPS):
            further: list[int] = []
            for frame in (each for number in waiting for each in self._makers(number)):
                wholes = [ancestors(self._recording, number)[-1][0] for number in frame.inputs]
                if tensor in wholes:
                    return frame
                further += [each for each in wholes if each not in seen]
                seen.update(wholes)
            waiting = further
        return None

    def _handed_on(self, tensor: int, leaf: int) -> Frame | None:
        """The last Frame that handed on a tensor's bytes without its history before the leaf on them was seen."""
        before = reversed(self._recording.frames[: self._recording.tensors[leaf].frame + 1])
        return next((each for each in before if each.op in ("data", "detach") and tensor in each.inputs), None)

    def _makers(self, tensor: int) -> list[Frame]:
        """Those that made or wrote all bytes that it has had, and did no more than copy."""
        storages = (self._first.get(tensor), self._recording.tensors[tensor].storage)
        frames = (each for storage in storages if storage is not None for each in self._onto.get(storage, ()))
        return [each for each in frames if each.op in COPIES]

    def _storages(self, frame: Frame) -> Iterator[int]:
        recording = self._recording
        for write in (recording.writes[number] for number in frame.writes):
            self._first.setdefault(write.tensor, write.storage) if write.op == "set data" else None
            yield write.storage
        for number in frame.outputs:
            if recording.tensors[number].alias_of is None and number not in frame.inputs:
                yield recording.tensors[number].storage
