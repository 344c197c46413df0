"""One call of torch: what was true before it, and what it did to tensors, Nodes, Writes and Frames."""

from __future__ import annotations

from types import FrameType
from typing import Any, cast

import torch

from seegrad.capture.calls import Call, always_writes, may_write, region
from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.variables import tensors_in
from seegrad.capture.state import RecordingState
from seegrad.capture.tables.frames import FrameDraft, Hit
from seegrad.capture.tables.nodes import Birth, Source
from seegrad.errors import text_of
from seegrad.model.recording import Place, RaisedError, Route

ROUTES: dict[str, Route] = {"data": "data", "detach": "detach", "detach_": "detach"}
EMPTY = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
"""Ops whose result holds whatever was in memory: not shown, it differs from run to run."""


class Op:
    """Looks before the call when it's made; then `done` or `failed` says how the call ended.

    `frame` makes the call; `user` is the user's line, the same where no function of torch's is between.
    """

    def __init__(
        self,
        state: RecordingState,
        call: Call,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        frame: FrameType,
        user: FrameType | None,
    ) -> None:
        self._state, self._call, self._user = state, call, user
        self._tables = tables = state.tables
        self._option = kwargs.get("inplace") is True
        self._inputs = inputs = tensors_in((args, kwargs) if kwargs else args)
        self._targets = may_write(call, args, kwargs) if call.writes or "out" in kwargs else []
        known = list(map(tables.tensors.find, inputs))
        unmet = None in known
        state.new_event(user, direct=user is frame, deep=unmet and any(map(tables.tensors.is_new, inputs)))
        self._module = state.module(frame)  # after the event: its names are known now
        graph = torch.is_grad_enabled()
        made = self._made() if graph else ()
        self._applied = None if graph else self._applying(frame)
        if unmet:
            state.meet_wrapped(inputs, user)
        self._numbers = [tables.meet(tensor) for tensor in inputs] if unmet else cast(list[int], known)
        self._sources = {source: self._numbers[position] for position, source in made}
        self._versions = [_torch.version(tensor) for tensor in inputs]
        self._storages: list[int] = []
        self._span: tuple[int, int] | None = None
        if call.writes:
            self._look_at_targets(args)

    def _applying(self, frame: FrameType | None) -> Place | None:
        """The user's line that called the custom Function in whose forward this call is made, where it's in one."""
        while frame is not None and frame is not self._user:
            if frame.f_code is _torch.APPLY:
                return self._place()
            frame = frame.f_back
        return self._state.applying

    def _made(self) -> list[tuple[int, Source]]:
        """(position, who made it) of each input that has a graph."""
        graph = [
            (i, tensor) for i, tensor in enumerate(self._inputs) if tensor.requires_grad and not _torch.is_leaf(tensor)
        ]
        if not graph:
            return []
        made = [(i, self._tables.source(tensor)) for i, tensor in graph]
        if any(source is None for _, source in made):
            self._state.meet_late([tensor for _, tensor in graph])
            made = [(i, self._tables.source(tensor)) for i, tensor in graph]
        return [(i, source) for i, source in made if source is not None]

    def _look_at_targets(self, args: tuple[Any, ...]) -> None:
        """Remember the bytes that the call may overwrite, and the storages that it may exchange."""
        number = self._tables.tensors.storage_number
        self._storages = [number(tensor) for tensor in self._inputs]
        self._span = region(self._call.name, args)
        for tensor in self._targets:
            self._tables.saved.keep(number(tensor))

    # -- after the call

    def done(self, result: Any) -> None:
        """The call returned: what was written, made, saved."""
        tables, name = self._tables, self._call.name
        if name.startswith("set "):  # `x.requires_grad = True`: what is known of x has changed
            for tensor in self._inputs:
                tables.number(tensor)
        outputs = tensors_in(result)
        written = self._written()
        if not (outputs or written or self._storages):
            return
        frame = tables.frames.new("inplace" if written else "forward", name, self._place())
        frame.inputs, frame.module = tuple(self._numbers), self._module
        frame.applied = self._applied
        for tensor in written:
            self._write(frame, tensor)
        if self._storages:
            self._rebind(frame)
        if name in EMPTY:
            tables.uninitialised.update(tables.tensors.storage_number(tensor) for tensor in outputs)
        frame.outputs = tuple([self._output(frame, tensor) for tensor in outputs])
        if frame.grad_enabled:
            self._walk(frame, outputs, written)
        if not (outputs or frame.writes or frame.nodes):
            tables.frames.drop_last()

    def _place(self) -> Place | None:
        return self._state.source.place(self._user)

    def _walk(self, frame: FrameDraft, outputs: list[torch.Tensor], written: list[torch.Tensor]) -> None:
        """Meet the Nodes that the call made."""
        made, changed = outputs, written
        if written:
            changed = [*written, *(base for tensor in written if (base := _torch.base(tensor)) is not None)]
            made = [*outputs, *(t for t in changed if not any(t is output for output in outputs))]
        nodes = _torch.grad_fns(made)
        if nodes:
            birth = Birth(frame.index, self._call.name, self._numbers, made, changed, self._sources)
            frame.nodes = self._tables.nodes.walk(nodes, birth)

    def _written(self) -> list[torch.Tensor]:
        """The tensors that the call wrote: those it names, then one for each other counter that moved."""
        versions = zip(self._inputs, self._versions, strict=True)
        moved = [tensor for tensor, version in versions if version is not None and _torch.version(tensor) != version]
        if not moved and not self._targets:
            return []
        found: list[torch.Tensor] = []
        for tensor in self._targets:
            behind = always_writes(self._call.name) or _torch.version(tensor) is None or self._hit(tensor)
            if (behind or any(tensor is t for t in moved)) and not any(tensor is t for t in found):
                found.append(tensor)
        counters = {self._tables.tensors.counter(tensor) for tensor in found}
        for tensor in moved:
            counter = self._tables.tensors.counter(tensor)
            if counter not in counters:
                counters.add(counter)
                found.append(tensor)
        return found

    def _hit(self, tensor: torch.Tensor) -> bool:
        return self._tables.saved.differs(self._tables.tensors.storage_number(tensor))

    def _write(self, frame: FrameDraft, tensor: torch.Tensor) -> None:
        position = next((i for i, each in enumerate(self._inputs) if each is tensor), None)
        version = self._versions[position] if position is not None else None
        part = self._span is not None and bool(self._targets) and tensor is self._targets[0]
        span = self._span if part and self._span is not None else _torch.span(tensor)
        tensors = self._tables.tensors
        number, storage = tensors.see(tensor, frame.index), tensors.storage_number(tensor)
        op = f"{self._call.name}(inplace=True)" if self._option else self._call.name
        self._state.write(frame, Hit(number, storage, span, op, (version, _torch.version(tensor))))

    def _rebind(self, frame: FrameDraft) -> None:
        """`x.data = y`, `set_`: the tensor left its storage, and whoever saved it sees the new one."""
        tensors = self._tables.tensors
        for tensor, storage, version in zip(self._inputs, self._storages, self._versions, strict=True):
            number = tensors.see(tensor, frame.index)
            if tensors.storage_number(tensor) == storage:
                continue
            span = tensors.rebound(number, tensor)
            now = _torch.version(tensor)
            self._state.write(frame, Hit(number, storage, span, self._call.name, (version, now)))
            self._tables.show(frame, number, tensor)
            frame.phase = "inplace"

    def _output(self, frame: FrameDraft, tensor: torch.Tensor) -> int:
        fresh = self._tables.tensors.find(tensor) is None
        route = ROUTES.get(self._call.name, "view")
        number = self._tables.tensors.see(tensor, frame.index, self._numbers, route)
        if fresh:
            self._tables.show(frame, number, tensor)
        return number

    def failed(self, error: BaseException) -> None:
        """The call raised."""
        self._state.last_look(self._user)
        frame = self._tables.frames.new("error", self._call.name, self._place())
        frame.inputs = tuple(self._numbers)
        self._tables.raised(RaisedError(type(error).__name__, text_of(error), frame.place, frame.index))
