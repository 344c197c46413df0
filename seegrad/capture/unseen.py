"""Writes that code of the user's makes while a backward runs: torch's engine shows the recorder no call of its hooks.

A tensor whose version is another one after the backward than before it was written by such code. Where such code goes
behind the versions (`.data`, numpy), the bytes that were saved are compared too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seegrad.capture.capture_lines import Line, Writer, writing_line
from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.state import State
from seegrad.capture.tables.capture_writes import Hit
from seegrad.capture.tables.nodes import NodeDraft

BEHIND = frozenset({"data", "numpy", "untyped_storage", "from_dlpack", "data_ptr"})
"""What a function names that may write without moving a version."""

Writers = Mapping[int, tuple[Writer, ...]]
"""Node → what the user's code runs for it."""


class Stealth:
    """The versions of what the Nodes of one backward keep or add into, as they are before it."""

    def __init__(self, state: State, met: Sequence[NodeDraft], writers: Writers, backward: int) -> None:
        self._state, self._writers, self._backward = state, writers, backward
        self._leaves = {draft.leaf: draft.id for draft in met if draft.leaf is not None}
        kept = {saved.tensor for draft in met for saved in draft.saved} if writers else set()
        self._before = {number: self._version(number) for number in (*self._leaves, *kept)} if writers else {}
        self._began = state.writes.next
        if any(self._goes_behind(writer) for each in writers.values() for writer in each):
            for number in self._before:
                state.saved.keep(state.tensors.drafts[number].storage)

    @staticmethod
    def _goes_behind(writer: Writer) -> bool:
        function = writer.function()
        return function is not None and not BEHIND.isdisjoint(function.__code__.co_names)

    def _version(self, number: int) -> int | None:
        tensor = self._state.tensors.alive(number)
        return None if tensor is None else _torch.version(tensor)

    def write_down(self, ran: Sequence[int]) -> None:
        """A Frame for each counter that has moved unseen; `ran` are the Nodes that ran."""
        if not self._before:
            return
        writes, tensors = self._state.writes, self._state.tensors.drafts
        made = (writes.drafts.get(number) for number in range(self._began, writes.next))
        told = {
            tensors[draft.hit.tensor].counter for draft in made if draft is not None and draft.hit.tensor in tensors
        }
        for number, before in self._before.items():
            now = self._version(number)
            behind = now == before and self._state.saved.differs(tensors[number].storage)
            if now is None or not (behind or now != before) or tensors[number].counter in told:
                continue
            line = self._line(number, ran)
            if line is not None:
                told.add(tensors[number].counter)
                self._write_down(number, line, (before, now))

    def _line(self, number: int, ran: Sequence[int]) -> Line | None:
        """Where the write was made: a leaf is what the post-accumulate hooks on it are given."""
        tensor, own = self._state.tensors.alive(number), self._leaves.get(number)
        nodes = dict.fromkeys((*ran, *([] if own is None else [own])))
        writers = [
            (writer, node == own and writer.given == "leaf") for node in nodes for writer in self._writers.get(node, ())
        ]
        return writing_line(writers, self._state.source, None if tensor is None else _torch.storage_key(tensor))

    def _write_down(self, number: int, line: Line, versions: tuple[int | None, int | None]) -> None:
        draft = self._state.tensors.drafts[number]
        frame = self._state.frames.new("inplace", line[1], line[0])
        frame.inputs, frame.outputs, frame.backward = (number,), (number,), self._backward
        self._state.write(frame, Hit(number, draft.storage, draft.span, line[1], versions))
