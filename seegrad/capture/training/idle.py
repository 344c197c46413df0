"""Optimisers that were made and never step: torch tells of a step, and nothing tells of none.

When a backward begins, at the fourth, the eighth, the sixteenth …, the user's variables are looked through for those
that haven't stepped yet and for a call that may still come.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer

from seegrad.capture.probes.places import Source
from seegrad.capture.probes.variables import Reach, is_a
from seegrad.capture.probes.written import Text, bound, called, named_only, under_way
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import GradientUseDraft

SEVERAL = 3
"""So many backward calls come before the first look."""

STEPS = re.compile(r"(?:^|_)(?:opt|optim|optimi[sz]ers?)_?steps?$|^apply_gradients$|^closure$")
"""A function of the user's that steps, as people call it."""


class IdleOptimisers:
    """Those that were found. `has_stepped` says whether one was seen to step."""

    def __init__(self, tables: Tables, source: Source, has_stepped: Callable[[Optimizer], bool]) -> None:
        self._tables, self._source, self._has_stepped = tables, source, has_stepped
        self._laps = 0

    def lap(self, frames: Sequence[FrameType]) -> None:
        """A backward call begins."""
        self._laps += 1
        if self._laps > SEVERAL and self._laps & (self._laps - 1) == 0:
            self._look(frames)

    def _look(self, frames: Sequence[FrameType]) -> None:
        found: dict[str, Any] = {}
        reach = Reach(frames)
        for frame in frames:
            found |= dict(reach.of(frame))
        optimisers = {name: each for name, each in found.items() if is_a(each, Optimizer)}
        waiting = {id(each): name for name, each in optimisers.items() if not each.state}
        waiting = {key: name for key, name in waiting.items() if not self._has_stepped(optimisers[name])}
        if waiting:
            others = {_last(name) for name, each in found.items() if is_a(each, LRScheduler)}
            others |= {_last(name) for name, each in found.items() if each is None}  # a scaler that isn't there
            others |= {_last(name) for name, each in optimisers.items() if id(each) not in waiting}
            texts = under_way(self._source, frames)
            for name in waiting.values():
                if not self._may_step(texts, others | {_last(each) for each in waiting.values()} - {_last(name)}):
                    self._tell(name, optimisers[name], texts)

    def _may_step(self, texts: Sequence[Text], others: set[str]) -> bool:
        """Does the text under way call a `step` that isn't of something else?"""
        for _, tree in texts:
            for each in ast.walk(tree):
                match each:
                    case ast.Call(func=ast.Attribute(value=owner, attr="step")) if called(owner) not in others:
                        return True
                    case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if STEPS.search(name):
                        return True
        return False

    def _tell(self, name: str, optimiser: Optimizer, texts: Sequence[Text]) -> None:
        leaves = [leaf for group in optimiser.param_groups for leaf in group["params"]]
        held = tuple((number, None) for leaf in leaves if (number := self._tables.tensors.find(leaf)) is not None)
        uses, now = self._tables.uses, self._tables.frames.now
        made = bound(self._source, texts, _last(name), lambda value: isinstance(value, ast.Call))
        uses.append(GradientUseDraft("idle", now, made, held))
        uncalled = named_only(self._source, texts, _last(name), "step")
        if uncalled is not None:
            uses.append(GradientUseDraft("uncalled", now, uncalled, held))


def _last(name: str) -> str:
    return name.rpartition(".")[2]
