"""Optimisers that were made and never step: torch tells of a step, and nothing tells of none.

When a backward begins, at the fourth, the eighth, the sixteenth …, the user's variables are looked through for those
that haven't stepped yet and for a call that may still come. One that waits for a count of its loop never comes where
the loop begins again before it is there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer

from seegrad.capture.probes.places import Source
from seegrad.capture.probes.source_text import Text, bound, called, function_of, named_only, under_way
from seegrad.capture.probes.variables import Reach, is_a
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import GradientUseDraft
from seegrad.model.recording import Clue, Place

SEVERAL = 3
"""So many backward calls come before the first look."""

STEPS = re.compile(r"(?:^|_)(?:opt|optim|optimi[sz]ers?)_?steps?$|^apply_gradients$|^closure$")
"""A function of the user's that steps, as people call it."""


class IdleOptimisers:
    """Those that were found. `has_stepped` says whether one was seen to step."""

    def __init__(self, tables: Tables, source: Source, has_stepped: Callable[[Optimizer], bool]) -> None:
        self._tables, self._source, self._has_stepped = tables, source, has_stepped
        self._laps = 0
        self._counts: dict[tuple[str, Place], int] = {}  # optimiser, condition → how far the count was at the last look

    def lap(self, frames: Sequence[FrameType]) -> None:
        """A backward call begins."""
        self._laps += 1
        if self._laps > SEVERAL and self._laps & (self._laps - 1) == 0:
            self._look(frames)

    def _look(self, frames: Sequence[FrameType]) -> None:
        reach = Reach(frames)
        found = [pair for frame in frames for pair in reach.of(frame)]  # a name may stand for one thing in each
        optimisers = [(name, each) for name, each in found if is_a(each, Optimizer)]
        waiting = {id(each): (name, each) for name, each in optimisers if not each.state}
        waiting = {key: pair for key, pair in waiting.items() if not self._has_stepped(pair[1])}
        if waiting:
            others = {_last(name) for name, each in found if is_a(each, LRScheduler)}
            others |= {_last(name) for name, each in found if each is None}  # a scaler that isn't there
            others |= {_last(name) for name, each in optimisers if id(each) not in waiting}
            texts, elsewhere = under_way(self._source, frames), self._of_those_that_step(frames, reach)
            for name, optimiser in waiting.values():
                rest = others | {_last(each) for each, _ in waiting.values()} - {_last(name)}
                calls = [call for call in _steps(texts, rest - {_last(name)}) if id(call) not in elsewhere]
                unreached = self._unreached(name, texts, calls, dict(found)) if calls else None
                leaves = self._tell(name, optimiser, texts) if not calls or unreached is not None else ()
                if unreached is not None:
                    self._tables.clues.append(Clue("step unreached", self._tables.frames.now, unreached, leaves))

    def _of_those_that_step(self, frames: Sequence[FrameType], reach: Reach) -> set[int]:
        """The calls in these functions whose names there stand for an optimiser that was seen to step."""
        calls = set[int]()
        for frame in frames:
            known = {_last(name) for name, each in reach.of(frame) if is_a(each, Optimizer) and self._has_stepped(each)}
            for _, tree in function_of(self._source, frame.f_code) if known else ():
                calls |= {id(each) for each in ast.walk(tree) if _is_step(each, known)}
        return calls

    def _unreached(
        self, name: str, texts: Sequence[Text], calls: Sequence[ast.AST], found: Mapping[str, Any]
    ) -> Place | None:
        """The condition under which all of these stand: one on a count that has begun again since the last look."""
        for file, tree in texts:
            for loop in (each for each in ast.walk(tree) if isinstance(each, ast.For)):
                inner, counter = list(ast.walk(loop)), _counter(loop)
                if not counter or not any(
                    isinstance(each, ast.Attribute) and each.attr == "backward" for each in inner
                ):
                    continue
                for each in (each for each in inner if isinstance(each, ast.If) and _waits(each.test, counter)):
                    held, count = [part for line in each.body for part in ast.walk(line)], found.get(counter)
                    if type(count) is int and all(any(call is part for part in held) for call in calls):
                        place = self._source.at(file, each.lineno)
                        before, self._counts[name, place] = self._counts.get((name, place), -1), count
                        return place if count <= before else None
        return None

    def _tell(self, name: str, optimiser: Optimizer, texts: Sequence[Text]) -> tuple[int, ...]:
        leaves = [leaf for group in optimiser.param_groups for leaf in group["params"]]
        numbers = tuple(number for leaf in leaves if (number := self._tables.tensors.find(leaf)) is not None)
        held = tuple((number, None) for number in numbers)
        uses, now = self._tables.uses, self._tables.frames.now
        made = bound(self._source, texts, _last(name), lambda value: isinstance(value, ast.Call))
        uses.append(GradientUseDraft("idle", now, made, held))
        uncalled = named_only(self._source, texts, _last(name), "step")
        if uncalled is not None:
            uses.append(GradientUseDraft("uncalled", now, uncalled, held))
        return numbers


def _steps(texts: Sequence[Text], others: set[str]) -> list[ast.AST]:
    """The calls in the text under way of a `step` that isn't of something else: an environment's gives several."""
    found, every = list[ast.AST](), [each for _, tree in texts for each in ast.walk(tree)]
    taken_apart = {id(each.value) for each in every if isinstance(each, ast.Assign) and _has_tuple(each.targets)}
    for each in every:
        match each:
            case ast.Call() if id(each) in taken_apart:
                continue
            case ast.Call(func=ast.Attribute(value=owner, attr="step")) if called(owner) not in others:
                found.append(each)
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if STEPS.search(name):
                found.append(each)
    return found


def _has_tuple(targets: Sequence[ast.expr]) -> bool:
    return any(isinstance(each, ast.Tuple | ast.List) for each in targets)


def _is_step(node: ast.AST, names: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="step")):
            return called(owner) in names
    return False


def _counter(loop: ast.For) -> str:
    """`i` of `for i, batch in enumerate(loader)`, which begins anew with its loop."""
    match loop:
        case ast.For(target=ast.Tuple(elts=[ast.Name(id=name), *_]), iter=ast.Call(func=ast.Name(id="enumerate"))):
            return name
    return ""


def _waits(test: ast.expr, counter: str) -> bool:
    """Is it a condition on that count alone: `(i + 1) % 8 == 0`, and nothing that may hold in another way?"""
    parts = list(ast.walk(test))
    names = {each.id for each in parts if isinstance(each, ast.Name)}
    return (
        counter in names
        and any(isinstance(each, ast.Mod) for each in parts)
        and not any(isinstance(each, ast.Or) for each in parts)
    )


def _last(name: str) -> str:
    return name.rpartition(".")[2]
