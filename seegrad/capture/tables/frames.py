"""The Frames in the making, one an event, and the Writes made in them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import torch

from seegrad.capture.tables.ids import Ids
from seegrad.model.recording import Frame, Gradient, Phase, Place, Preview, Write

Seen = tuple[int, Preview | None, torch.Size, bool]
"""A Gradient's fields: tensor, preview, shape, kept."""


RAGGED = -1
"""The side of a nested tensor that has no one length."""


def sides(shape: torch.Size) -> tuple[int, ...]:
    """A shape as plain numbers.

    >>> sides(torch.ones(2, 3).shape)
    (2, 3)
    """
    return tuple([side if type(side) is int else RAGGED for side in shape])


@dataclass(slots=True)
class FrameDraft:
    """A Frame that may still grow; its fields are the Frame's."""

    index: int
    phase: Phase
    place: Place | None
    op: str
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    shown: dict[int, tuple[Preview | None, int | None]] | None = None  # tensor → numbers, version
    running: int | None = None
    gradients: tuple[Seen, ...] = ()
    backward: int | None = None
    grad_enabled: bool = True
    corrupted: tuple[int, ...] = ()
    module: str = ""
    wanted: tuple[int, ...] = ()
    spoiled: tuple[int, ...] = ()
    applied: Place | None = None
    keeps_graph: bool = False

    def show(self, tensor: int, numbers: Preview | None, version: int | None) -> None:
        """The state of a tensor after this Frame."""
        if self.shown is None:
            self.shown = {}
        self.shown[tensor] = numbers, version

    def freeze(self, ids: Ids) -> Frame:
        """The Frame as the model has it."""
        tensors = ids.tensors
        shown = [(number, state) for number, state in (self.shown or {}).items() if number in tensors]
        return Frame(
            index=ids.frames[self.index],
            phase=self.phase,
            place=self.place,
            op=self.op,
            inputs=ids.of(tensors, self.inputs),
            outputs=ids.of(tensors, self.outputs),
            nodes=ids.of(ids.nodes, self.nodes),
            writes=ids.of(ids.writes, self.writes),
            values=tuple((tensors[number], value) for number, (value, _) in shown),
            versions=tuple((tensors[number], version) for number, (_, version) in shown),
            running=ids.one(ids.nodes, self.running),
            gradients=tuple(
                Gradient(tensors[number], numbers, sides(shape), kept)
                for number, numbers, shape, kept in self.gradients
                if number in tensors
            ),
            backward=self.backward,
            grad_enabled=self.grad_enabled,
            corrupted=self.corrupted,
            module=self.module,
            wanted=ids.of(tensors, self.wanted),
            spoiled=ids.of(ids.writes, self.spoiled),
            applied=self.applied,
            keeps_graph=self.keeps_graph,
        )


@dataclass(frozen=True, slots=True)
class Lap:
    """What the Frames of one backward call have in common."""

    number: int
    place: Place | None
    keeps_graph: bool
    grad_enabled: bool


Ran = tuple[Lap, int, str, tuple[Seen, ...]]
"""A Frame in which a Node ran and nothing else was to be seen: its lap, the Node, its name, its gradients."""


class Frames:
    """All Frames of one Recording that weren't forgotten. Most of a backward's are kept short, as `ran`."""

    def __init__(self) -> None:
        self.drafts: dict[int, FrameDraft] = {}
        self.ran: dict[int, Ran] = {}
        self.next = 0

    def __len__(self) -> int:
        return len(self.drafts) + len(self.ran)

    @property
    def last(self) -> FrameDraft:
        """The newest Frame, whole."""
        if self.next - 1 in self.ran:
            self._write_out(self.next - 1)
        return self.drafts[self.next - 1]

    def last_runs(self) -> dict[int, int]:
        """Node → the last Frame in which it ran."""
        found = {draft.running: number for number, draft in self.drafts.items() if draft.running is not None}
        for number, (_, node, _, _) in self.ran.items():
            found[node] = max(number, found.get(node, number))
        return found

    def whole(self, since: int) -> None:
        """Write out the short Frames from number `since` on."""
        for number in [number for number in self.ran if number >= since]:
            self._write_out(number)

    def _write_out(self, number: int) -> None:
        lap, node, name, gradients = self.ran.pop(number)
        draft = FrameDraft(number, "backward", lap.place, name, running=node, gradients=gradients)
        draft.backward, draft.keeps_graph, draft.grad_enabled = lap.number, lap.keeps_graph, lap.grad_enabled
        self.drafts[number] = draft

    def keep(self, numbers: Set[int]) -> None:
        """Drop all others."""
        self.drafts = {number: draft for number, draft in self.drafts.items() if number in numbers}
        self.ran = {number: each for number, each in self.ran.items() if number in numbers}

    def in_order(self) -> dict[int, FrameDraft]:
        """Every Frame, whole, by its number."""
        self.whole(0)
        self.drafts = dict(sorted(self.drafts.items()))
        return self.drafts

    def new(self, phase: Phase, op: str, place: Place | None) -> FrameDraft:
        """The next Frame."""
        draft = FrameDraft(self.next, phase, place, op, grad_enabled=torch.is_grad_enabled())
        self.drafts[self.next] = draft
        self.next += 1
        return draft

    def drop_last(self) -> None:
        """Nothing happened in the newest Frame: it's taken back."""
        self.next -= 1
        del self.drafts[self.next]


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
