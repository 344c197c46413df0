"""Events in, drafts out: what each call of torch means for tensors, Nodes, Writes and Frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from . import _torch
from .capture_backward import grad_fns
from .capture_calls import always_writes, may_write, region, tensors_in
from .capture_frames import FrameDraft
from .capture_names import Names
from .capture_nodes import Birth, Nodes
from .capture_saved import SavedTensors
from .capture_tensors import Tensors
from .model import Phase, Place, RaisedError, Recording, Route, Write
from .places import Source, user_frames
from .previews import preview

ROUTES: dict[str, Route] = {"data": "data", "detach": "detach", "detach_": "detach"}
EMPTY = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
"""Ops whose result holds whatever was in memory: not shown, it differs from run to run."""

EXTERNAL = "write outside torch"
"""The op of a Write that torch never saw: numpy, a raw pointer."""


@dataclass(slots=True)
class Before:
    """What was true before a call ran."""

    name: str
    inputs: list[torch.Tensor]
    targets: list[torch.Tensor]  # what the call may write
    span: tuple[int, int] | None  # of the first target, where the call writes only a part of it
    versions: list[int | None]  # of `inputs`
    storages: list[int]  # of `inputs`
    sources: dict[tuple[int, int], int]
    place: Place | None
    option: bool  # `inplace=True` was asked for


class State:
    """All drafts of one Recording."""

    def __init__(self, source: Source, *, every_byte: bool) -> None:
        self.source = source
        self.tensors = Tensors()
        self.names = Names(self.tensors)
        self.saved = SavedTensors(every=every_byte)
        self.nodes = Nodes(self.tensors, self.saved)
        self.frames: list[FrameDraft] = []
        self.writes: list[Write] = []
        self.errors: list[RaisedError] = []
        self.backwards = 0
        self.root: int | None = None
        self._module: dict[str, Any] = {}  # variables of the last line that ran outside any function
        self._block: FrameType | None = None
        self._uninitialised: set[int] = set()
        self._last_line: tuple[str, int] | None = None

    # -- begin and end

    def start(self, frame: FrameType | None, place: Place | None) -> None:
        """The block begins."""
        self._block = frame
        self.new_frame("start", "start", place)

    def finish(self, block: FrameType | None) -> None:
        """The block ends: a last look at what has no name yet."""
        self.new_event(block, deep=True)
        self.names.everything([self._module])
        self._block, self._module = None, {}
        self.forget_dead()

    def forget_dead(self) -> None:
        """Drop what the program has dropped, so that a training loop doesn't make the tables grow."""
        self.tensors.forget_dead()
        self.saved.forget_dead()

    def left_by(self, error: BaseException, place: Place | None) -> RaisedError:
        """The error that leaves the block: the one seen in a call of torch, or one of the user's own."""
        kind, text = type(error).__name__, str(error)
        if self.errors and (self.errors[-1].kind, self.errors[-1].text) == (kind, text):
            return self.errors[-1]
        frame = self.new_frame("error", kind, place)
        return RaisedError(kind, text, place, frame.index)

    def recording(
        self,
        code: tuple[tuple[int, str], ...],
        file: str,
        versions: tuple[tuple[str, str], ...],
        error: RaisedError | None,
    ) -> Recording:
        """The drafts as they are now, frozen."""
        return Recording(
            frames=tuple(draft.freeze() for draft in self.frames),
            tensors=self.tensors.freeze(),
            nodes=tuple(self.nodes.found),
            writes=tuple(self.writes),
            error=error,
            code=code,
            code_file=file,
            root=self.root,
            versions=versions,
            errors=tuple(self.errors),
        )

    def new_frame(self, phase: Phase, op: str, place: Place | None) -> FrameDraft:
        """The next Frame."""
        draft = FrameDraft(len(self.frames), phase, place, op, grad_enabled=torch.is_grad_enabled())
        self.frames.append(draft)
        return draft

    # -- before a call

    def before(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], user: FrameType | None, *, direct: bool
    ) -> Before:
        """Look before the call runs: names, versions, and the bytes that it may overwrite.

        `direct`: the user's own line makes the call, not a function of torch's.
        """
        inputs, targets = tensors_in((args, kwargs)), may_write(name, args, kwargs)
        self.new_event(user, direct=direct, deep=any(self.tensors.is_new(tensor) for tensor in inputs))
        self.meet_late(inputs)
        for tensor in inputs:
            self._meet_input(tensor)
        for tensor in targets:
            self.saved.keep(self.tensors.storage_number(tensor))
        return Before(
            name=name,
            inputs=inputs,
            targets=targets,
            span=region(name, args),
            versions=[_torch.version(tensor) for tensor in inputs],
            storages=[self.tensors.storage_number(tensor) for tensor in inputs],
            sources=self._sources(inputs),
            place=self.source.place(user),
            option=kwargs.get("inplace") is True,
        )

    def new_event(self, user: FrameType | None, *, direct: bool = True, deep: bool = False) -> None:
        """What happened since the last event: names were given, bytes may have changed behind torch's back."""
        frames = user_frames(user, self._block)
        if not self._last_line:  # nothing has run yet: what these frames hold existed before
            self.names.start(frames)
        if user is not None and user.f_code.co_name == "<module>":
            self._module = user.f_globals
        unseen = self.names.event(frames, direct=direct)
        self.meet_late(self.names.everything(frames) if deep else unseen)
        line = (user.f_code.co_filename, user.f_lineno or 0) if user is not None else None
        for saved, _ in self.saved.changed_behind():
            tensor = self.nodes.found[saved.node].saved[saved.index].tensor
            draft = self.new_frame("inplace", EXTERNAL, self.source.between(self._last_line, line))
            if tensor is not None:
                self._add_write(draft, tensor, saved.storage, saved.span, EXTERNAL, saved.version, saved.version)
        self._last_line = line or self._last_line

    def _meet_input(self, tensor: torch.Tensor) -> None:
        """A tensor that's first seen as an input was there already: in the Frame before, or from the start."""
        if self.tensors.find(tensor) is None:
            frame = self.frames[0] if self.tensors.existed_at_start(tensor) else self.frames[-1]
            self._show(frame, self.tensors.see(tensor, frame.index), tensor)

    def meet_late(self, inputs: Sequence[torch.Tensor]) -> None:
        """Nodes that were made where no call was seen (autograd.Function.apply, C++, before the block)."""
        if not torch.is_grad_enabled():
            return
        last = self.frames[-1]
        unknown = [t for t in inputs if t.requires_grad and not t.is_leaf and self.nodes.source(t, last.index) is None]
        if unknown:
            last.nodes += self.nodes.walk(grad_fns(unknown), Birth(last.index, last.op, (), unknown, late=True))

    def _sources(self, inputs: Sequence[torch.Tensor]) -> dict[tuple[int, int], int]:
        found: dict[tuple[int, int], int] = {}
        for tensor in inputs if torch.is_grad_enabled() else ():
            made, number = self.nodes.source(tensor, self.frames[-1].index), self.tensors.find(tensor)
            if made is not None and number is not None:
                found[made] = number
        return found

    # -- after a call

    def after(self, before: Before, result: Any) -> None:
        """Look after the call: what was written, made, saved."""
        outputs, written = tensors_in(result), self._written(before)
        frame = self.new_frame("inplace" if written else "forward", before.name, before.place)
        frame.inputs = tuple(self.tensors.see(t, frame.index) for t in before.inputs)
        for tensor in written:
            self._write(frame, tensor, before)
        self._rebind(frame, before)
        if before.name in EMPTY:
            self._uninitialised.update(self.tensors.storage_number(tensor) for tensor in outputs)
        frame.outputs = tuple(self._output(frame, tensor, before) for tensor in outputs)
        if torch.is_grad_enabled():
            bases = [base for t in written if (base := _torch.base(t)) is not None]
            made = [*outputs, *(t for t in (*written, *bases) if not any(t is o for o in outputs))]
            birth = Birth(frame.index, before.name, before.inputs, made, (*written, *bases), before.sources)
            frame.nodes = self.nodes.walk(grad_fns(made), birth)
        if not (outputs or frame.writes or frame.nodes):
            self.frames.pop()

    def _written(self, before: Before) -> list[torch.Tensor]:
        """The tensors that the call wrote: those it names, then one for each other counter that moved."""
        moved = [
            t for t, v in zip(before.inputs, before.versions, strict=True) if v is not None and _torch.version(t) != v
        ]
        found: list[torch.Tensor] = []
        for tensor in before.targets:
            behind = always_writes(before.name) or _torch.version(tensor) is None or self._hit(tensor)
            if (behind or any(tensor is t for t in moved)) and not any(tensor is t for t in found):
                found.append(tensor)
        counters = {self._counter(tensor) for tensor in found}
        for tensor in moved:
            if self._counter(tensor) not in counters:
                counters.add(self._counter(tensor))
                found.append(tensor)
        return found

    def _hit(self, tensor: torch.Tensor) -> bool:
        return self.saved.differs(self.tensors.storage_number(tensor))

    def _counter(self, tensor: torch.Tensor) -> int | None:
        number = self.tensors.find(tensor)
        return None if number is None else self.tensors.drafts[number].counter

    def _write(self, frame: FrameDraft, tensor: torch.Tensor, before: Before) -> None:
        position = next((i for i, each in enumerate(before.inputs) if each is tensor), None)
        version = before.versions[position] if position is not None else None
        span = before.span if before.span is not None and tensor is before.targets[0] else _torch.span(tensor)
        number, storage = self.tensors.see(tensor, frame.index), self.tensors.storage_number(tensor)
        op = f"{before.name}(inplace=True)" if before.option else before.name
        self._add_write(frame, number, storage, span, op, version, _torch.version(tensor))

    def _add_write(
        self,
        frame: FrameDraft,
        tensor: int,
        storage: int,
        span: tuple[int, int],
        op: str,
        before: int | None,
        after: int | None,
    ) -> None:
        place = frame.place or Place("", 0, "")
        write = Write(len(self.writes), frame.index, tensor, storage, span, op, None, place, before, after)
        self.writes.append(write)
        frame.writes += (write.id,)
        self.saved.written(storage, span)
        self._uninitialised.discard(storage)
        for number in self.tensors.on_storage(storage):
            each = self.tensors.alive(number)
            if each is not None:
                self._show(frame, number, each)

    def _rebind(self, frame: FrameDraft, before: Before) -> None:
        """`x.data = y`, `set_`: the tensor left its storage, and whoever saved it sees the new one."""
        for tensor, storage, version in zip(before.inputs, before.storages, before.versions, strict=True):
            if self.tensors.storage_number(tensor) == storage:
                continue
            number = self.tensors.see(tensor, frame.index)
            span = self.tensors.drafts[number].span
            self.tensors.rebound(number, tensor)
            self._add_write(frame, number, storage, span, before.name, version, _torch.version(tensor))
            self._show(frame, number, tensor)
            frame.phase = "inplace"

    def _output(self, frame: FrameDraft, tensor: torch.Tensor, before: Before) -> int:
        fresh = self.tensors.find(tensor) is None
        number = self.tensors.see(tensor, frame.index, before.inputs, ROUTES.get(before.name, "view"))
        if fresh:
            self._show(frame, number, tensor)
        return number

    def _show(self, frame: FrameDraft, number: int, tensor: torch.Tensor) -> None:
        empty = self.tensors.drafts[number].storage in self._uninitialised
        frame.values[number], frame.versions[number] = None if empty else preview(tensor), _torch.version(tensor)

    # -- other events

    def escaped(self, tensors: Sequence[torch.Tensor]) -> None:
        """Someone outside torch was given these tensors' bytes."""
        for tensor in tensors:
            self.saved.watch(self.tensors.storage_number(tensor))

    def failed(self, before: Before, error: BaseException, user: FrameType | None) -> None:
        """The call raised: the last moment at which the variables of these functions can be read."""
        self.names.everything(user_frames(user, self._block))
        frame = self.new_frame("error", before.name, before.place)
        frame.inputs = tuple(self.tensors.see(t, frame.index) for t in before.inputs)
        self.errors.append(RaisedError(type(error).__name__, str(error), before.place, frame.index))
