"""What has been seen so far: one table each of tensors, Nodes, saved tensors, Frames, Writes and hooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.numbers import Summaries, SummaryDraft, fetch_summaries
from seegrad.capture.tables.frames import FrameDraft, Frames, GradientUseDraft, Hit, SwitchDraft, Writes, fetch, numeral
from seegrad.capture.tables.hooks import UserHooks
from seegrad.capture.tables.ids import Ids, frozen, without_gaps
from seegrad.capture.tables.nodes import Nodes
from seegrad.capture.tables.saved import SavedTensors
from seegrad.capture.tables.tensors import Source, Tensors
from seegrad.model.recording import (
    Clue,
    Collected,
    Extremes,
    Frame,
    FunctionCheck,
    GradientUse,
    Hook,
    Node,
    RaisedError,
    Recomputed,
    Recording,
    Switch,
    TensorRef,
    Write,
)


class Tables:
    """The tables of one Recording, and what concerns several of them."""

    def __init__(self, *, every_byte: bool, values: bool = False) -> None:
        self.tensors = Tensors()
        self.saved = SavedTensors(every=every_byte)
        self.nodes = Nodes(self.tensors, self.saved)
        self.frames = Frames(self.nodes.told, Summaries().look if values else None)
        self.writes = Writes()
        self.hooks = UserHooks()
        self.errors: list[RaisedError] = []
        self.uses: list[GradientUseDraft] = []
        self.extremes: list[Any] = []  # drafts of Extremes
        self.kept: set[int] = set()  # Frames that aren't forgotten
        self.switches: list[SwitchDraft] = []
        self.collected: list[Collected] = []
        self.lasting = set[int]()  # results of several laps that lay in a collection: told of although they're gone
        self.clues: list[Clue] = []
        self.rewarded = set[int]()  # leaves to which calls that are forgotten have brought a gradient
        self.checks: list[FunctionCheck] = []
        self.recomputed: list[Recomputed] = []
        self.laps: list[int] = []  # old laps: the last Frame of each that isn't forgotten
        self.root: int | None = None  # the tensor that backward was called on last

    # -- who is it

    def number(self, tensor: torch.Tensor) -> int:
        """The tensor's number; one that is met now was made in the newest Frame."""
        return self.tensors.see(tensor, self.frames.now)

    def source(self, tensor: torch.Tensor) -> Source | None:
        """The Node and output that made the tensor, where that Node was met."""
        return self.nodes.source(tensor, self.frames.now)

    # -- what happened

    def write(self, frame: FrameDraft, hit: Hit) -> int:
        """A Write was made: those who share the bytes show it."""
        number = self.writes.add(frame, hit)
        frame.writes += (number,)
        self.saved.written(hit.storage, hit.span, self.tensors.alive(hit.tensor) if hit.op == "set data" else None)
        self.tensors.uninitialised.discard(hit.storage)
        for tensor in self.tensors.hit(hit.storage, hit.span):
            each = self.tensors.alive(tensor)
            if each is not None:
                self.tensors.show(frame, tensor, each)
        return number

    def raised(self, error: RaisedError) -> None:
        """Torch has raised; the program may go on."""
        self.errors.append(error)

    # -- end

    def let_go(self) -> None:
        """Nothing more is to be seen: no tensor of the program is referred to any longer, however long this lives."""
        self.tensors.let_all_go()
        self.nodes.let_go()

    def exchanged(self, tensor: torch.Tensor) -> None:
        """The tensor gets another body: what it was is gone, but for those who keep it."""
        self.saved.place()
        self.tensors.let_go(tensor)

    def freeze(
        self,
        code: tuple[tuple[int, str], ...],
        file: str,
        versions: tuple[tuple[str, str], ...],
        error: RaisedError | None,
    ) -> Recording:
        """The Recording of what was seen so far, numbered without gaps."""
        frames, tensors = self.frames.in_order(), self.tensors.drafts
        self._fetch(frames.values())
        nodes, writes, hooks = self.nodes.drafts, self.writes.drafts, self.hooks.drafts
        ids = without_gaps(frame=frames, tensor=tensors, node=nodes, write=writes, hook=hooks)
        return Recording(
            frames=tuple([frozen(Frame, draft, ids) for draft in frames.values()]),
            tensors=tuple([frozen(TensorRef, draft, ids) for draft in tensors.values()]),
            nodes=tuple([frozen(Node, draft, ids) for draft in nodes.values()]),
            writes=tuple([frozen(Write, draft, ids) for draft in writes.values()]),
            error=None if error is None else frozen(RaisedError, error, ids),
            code=code,
            code_file=file,
            root=None if self.root is None else ids["tensor"].get(self.root),
            versions=versions,
            errors=tuple([frozen(RaisedError, each, ids) for each in self.errors]),
            hooks=tuple([frozen(Hook, draft, ids) for draft in hooks.values()]),
            uses=tuple([frozen(GradientUse, draft, ids) for draft in self.uses if draft.frame in ids["frame"]]),
            extremes=tuple([frozen(Extremes, each, ids) for each in self.extremes if each.frame in ids["frame"]]),
            switches=tuple([frozen(Switch, draft, ids) for draft in self.switches]),
            collected=tuple([frozen(Collected, each, ids) for each in self.collected]),
            clues=tuple([frozen(Clue, each, ids) for each in self._told() if _is_known(each, ids)]),
            checks=tuple([frozen(FunctionCheck, each, ids) for each in self.checks if each.frame in ids["frame"]]),
            recomputed=tuple([frozen(Recomputed, each, ids) for each in self.recomputed if each.frame in ids["frame"]]),
            laps=tuple([ids["frame"][number] for number in self.laps if number in ids["frame"]]),
        )

    def _told(self) -> Iterator[Clue]:
        """The clues; and of what forgotten calls have brought a gradient to: it isn't what got none."""
        yield from self.clues
        for leaf in sorted(self.rewarded & self.tensors.drafts.keys()):
            made = self.frames.drafts.get(self.tensors.drafts[leaf].frame)
            if made is not None and made.place is not None:
                yield Clue("rewarded", made.index, made.place, (leaf,))

    def _fetch(self, frames: Iterable[FrameDraft]) -> None:
        """Wait for the numbers that devices still have; read what is known of big tensors."""
        frames = list(frames)
        if self.frames.look is not None:
            with _torch.unseen():
                awaited = [each for frame in frames for each in frame.awaited if isinstance(each, SummaryDraft)]
                fetch_summaries(awaited, numeral)
        if all(draft.device == "cpu" for draft in self.tensors.drafts.values()):
            return
        calls = [call for hook in self.hooks.drafts.values() for call in hook.called]
        with _torch.unseen():
            fetch(each for frame in frames for each in frame.awaited)
            fetch(each for call in calls for each in (call.saw, call.gave))


def _is_known(clue: Clue, ids: Ids) -> bool:
    """Some are told of what was forgotten before; what is true of it shows again."""
    return clue.frame in ids["frame"] and ids["tensor"].keys() >= {*clue.tensors}
