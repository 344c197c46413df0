"""The Writes in the making."""

from __future__ import annotations

from dataclasses import dataclass

from .capture_frames import FrameDraft
from .capture_ids import Ids
from .model import Place, Write


@dataclass(frozen=True, slots=True)
class WriteDraft:
    """A Write, numbered as capture numbers."""

    id: int
    frame: int
    tensor: int
    storage: int
    span: tuple[int, int]
    op: str
    place: Place
    versions: tuple[int | None, int | None]  # before, after

    def freeze(self, ids: Ids) -> Write:
        """The Write as the model has it."""
        return Write(
            id=ids.writes[self.id],
            frame=ids.frames[self.frame],
            tensor=ids.tensors[self.tensor],
            storage=self.storage,
            span=self.span,
            op=self.op,
            aten=None,
            place=self.place,
            version_before=self.versions[0],
            version_after=self.versions[1],
        )


class Writes:
    """All Writes of one Recording that weren't forgotten."""

    def __init__(self) -> None:
        self.drafts: dict[int, WriteDraft] = {}
        self._next = 0

    def add(
        self,
        frame: FrameDraft,
        tensor: int,
        storage: int,
        span: tuple[int, int],
        op: str,
        versions: tuple[int | None, int | None],
    ) -> int:
        """The number of a new Write."""
        number, self._next = self._next, self._next + 1
        place = frame.place or Place("", 0, "")
        self.drafts[number] = WriteDraft(number, frame.index, tensor, storage, span, op, place, versions)
        return number
