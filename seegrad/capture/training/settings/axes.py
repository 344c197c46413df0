"""Along which axis a recurrent layer or an attention runs: `batch_first` says so, which is False by default.

Who hands in a first state or a mask knows the axes, since torch refuses one that doesn't fit; so does who writes it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from seegrad.capture.probes.places import Source, nodes
from seegrad.capture.probes.source_text import called
from seegrad.capture.probes.variables import tensors_in
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft
from seegrad.capture.training.settings.built import RUNNING, made_whole
from seegrad.model.recording import Clue, Place

ATTENDS = "multi_head_attention_forward"
AXES = "batch_first"
RUNS = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu", ATTENDS})
"""Ops of modules that run along one of two axes."""

GIVEN = 3
"""So many axes has what is told apart."""

KEYS = frozenset({"query", "key", "value", "input"})
"""What a module may be given by name that says nothing of axes."""


@dataclass(slots=True)
class _LayersLine:
    """What was seen of a line: the newest Frame, what it gave, whether that line, or who made the layer, knows."""

    frame: int
    given: tuple[int, ...]
    first: bool
    layer: str
    known: bool = False


class Axes:
    """The lines that call such modules, with gradients on."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._lines: dict[Place, _LayersLine] = {}

    def met(self, frame: FrameDraft, call: FrameType, tensors: list[torch.Tensor]) -> None:
        """A module has run, in that call of its own."""
        module, whole = call.f_locals["self"], made_whole(call)
        if frame.place is None or type(module).__name__ not in RUNNING or tensors[0].dim() != GIVEN:
            return
        first, layer = bool(module.batch_first), type(whole).__name__
        line = self._lines.setdefault(frame.place, _LayersLine(frame.index, frame.inputs[:1], first, layer))
        line.known |= (line.first, line.layer) != (first, layer) or _says(call, frame.op)
        if line.frame == frame.index:
            line.known |= not first and frame.built is not None and self._is_written(frame.built)
        line.frame, line.given = frame.index, frame.inputs[:1]

    def _is_written(self, built: Place) -> bool:
        """Does the call there say which axis it is, or may it?"""
        calls = (each for each in nodes(self._source.text(built.file)) if isinstance(each, ast.Call))
        here = (each for each in calls if each.lineno <= built.line <= (each.end_lineno or 0) and called(each.func))
        return any(word.arg in (AXES, None) for each in here for word in each.keywords)

    def tell(self) -> None:
        """The block is over."""
        for place, line in self._lines.items():
            if not line.known:
                facts = (("first", str(int(line.first))), ("layer", line.layer))
                self._tables.clues.append(Clue("axes", line.frame, place, line.given, facts))


def _says(call: FrameType, op: str) -> bool:
    """Is the module given more than what it runs along: a state, a mask?"""
    args: tuple[Any, ...] = call.f_locals.get("args", ())
    named: dict[str, Any] = call.f_locals.get("kwargs", {})
    beside = args[GIVEN:] if op == ATTENDS else args[1:]
    return bool(tensors_in((*beside, *(each for name, each in named.items() if name not in KEYS))))
