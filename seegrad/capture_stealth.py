"""Writes that code of the user's makes while a backward runs: torch's engine shows the recorder no call of its hooks.

A tensor whose version is another one after the backward than before it was written by such code. The line is the
first that looks like a write, in the hooks on that tensor or else in any other that ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType

from . import _torch
from .capture_edits import writing_line
from .capture_nodes import NodeDraft
from .capture_state import State
from .capture_writes import Hit
from .model import Place

Codes = Mapping[int, tuple[CodeType, ...]]
"""Node → what the user's code runs for it."""


class Stealth:
    """The versions of what the Nodes of one backward keep or add into, as they are before it."""

    def __init__(self, state: State, met: Sequence[NodeDraft], codes: Codes) -> None:
        self._state, self._codes = state, codes
        self._leaves = {draft.leaf: draft.id for draft in met if draft.leaf is not None}
        kept = {saved.tensor for draft in met for saved in draft.saved} if codes else set()
        self._before = {number: self._version(number) for number in (*self._leaves, *kept)} if codes else {}
        self._began = state.writes.next

    def _version(self, number: int) -> int | None:
        tensor = self._state.tensors.alive(number)
        return None if tensor is None else _torch.version(tensor)

    def write_down(self, ran: Sequence[int]) -> None:
        """A Frame for each counter that has moved unseen; `ran` are the Nodes that ran."""
        if not self._before:
            return
        writes, tensors = self._state.writes, self._state.tensors.drafts
        told = {tensors[writes.drafts[number].hit.tensor].counter for number in range(self._began, writes.next)}
        for number, before in self._before.items():
            counter, now = tensors[number].counter, self._version(number)
            line = self._line(number, ran) if now is not None and now != before and counter not in told else None
            if line is not None:
                told.add(counter)
                self._write_down(number, line, (before, now))

    def _line(self, number: int, ran: Sequence[int]) -> tuple[Place, str] | None:
        """Where the write may have been made: in the hooks on a leaf, else in whatever ran first."""
        own = [self._leaves[number]] if number in self._leaves else []
        lines = (writing_line(self._codes.get(node, ()), self._state.source) for node in (*own, *ran))
        return next((line for line in lines if line is not None), None)

    def _write_down(self, number: int, line: tuple[Place, str], versions: tuple[int | None, int | None]) -> None:
        draft = self._state.tensors.drafts[number]
        frame = self._state.frames.new("inplace", line[1], line[0])
        frame.inputs = frame.outputs = (number,)
        self._state.write(frame, Hit(number, draft.storage, draft.span, line[1], versions))
