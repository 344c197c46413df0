"""The Writes in the making."""

from __future__ import annotations

from dataclasses import dataclass

from seegrad.capture.tables.frames import FrameDraft
from seegrad.capture.tables.ids import Ids
from seegrad.model.recording import Place, Write


@dataclass(frozen=True, slots=True)
class Hit:
    """What an op did to some bytes, through which tensor; `versions` before and after."""

    tensor: int
    storage: int
    span: tuple[int, int]
    op: str
    versions: tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class WriteDraft:
    """A Write, numbered as capture numbers."""

    id: int
    frame: int
    place: Place
    hit: Hit

    def freeze(self, ids: Ids) -> Write:
        """The Write as the model has it."""
        return Write(
            id=ids.writes[self.id],
            frame=ids.frames[self.frame],
            tensor=ids.tensors[self.hit.tensor],
            storage=self.hit.storage,
            span=self.hit.span,
            op=self.hit.op,
            place=self.place,
            version_before=self.hit.versions[0],
            version_after=self.hit.versions[1],
        )


class Writes:
    """All Writes of one Recording that weren't forgotten."""

    def __init__(self) -> None:
        self.drafts: dict[int, WriteDraft] = {}
        self.next = 0

    def add(self, frame: FrameDraft, hit: Hit) -> int:
        """The number of a new Write."""
        number, self.next = self.next, self.next + 1
        self.drafts[number] = WriteDraft(number, frame.index, frame.place or Place("", 0, ""), hit)
        return number
