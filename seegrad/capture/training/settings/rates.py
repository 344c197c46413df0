"""Rates that are no rates: set on the optimiser itself, where nothing reads it, squared by a schedule, 0 for long.

Each is asked of the optimiser's own numbers, now and then before a step.
"""

from __future__ import annotations

import ast
import math
import weakref
from collections.abc import Sequence
from types import FrameType
from typing import Any

from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from torch.optim.optimizer import Optimizer

from seegrad.capture.probes.places import Source
from seegrad.capture.probes.source_text import Text, assigned, bound, called, texts, under_way
from seegrad.capture.probes.variables import Reach, is_a
from seegrad.capture.tables import Tables
from seegrad.capture.training.settings.standing import StandingRates
from seegrad.model.recording import Clue, Place

RATES = "lr", "learning_rate"
"""Attributes of an optimiser that torch never reads: a rate stands in each of its `param_groups`."""

MANY = 8
"""Steps by no rate at all: one that begins at 0 has left it by then."""

LATER = 2
"""A schedule has moved on so often before it's asked whether its rate has stayed that small."""


class Rates:
    """What is found, once for each optimiser."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._squared = weakref.WeakSet[Optimizer]()  # those whose first rate was one by itself
        self._steps = weakref.WeakKeyDictionary[Optimizer, int]()  # by no rate, all so far
        self._told: set[str] = set()
        self._standing = StandingRates(tables, source)

    def look(self, optimiser: Optimizer, frames: Sequence[FrameType]) -> None:
        """An optimiser is about to step; what one of the user's own has as attributes, it may read."""
        if type(optimiser).__module__.partition(".")[0] == "torch":
            self._unheard(optimiser, frames)
            self._by_itself(optimiser, frames)
        if self._steps.get(optimiser) == MANY:
            self._nothing(optimiser, frames)
        self._standing.look(optimiser, frames)

    def _unheard(self, optimiser: Optimizer, frames: Sequence[FrameType]) -> None:
        used = {group.get("lr") for group in optimiser.param_groups}
        for name in RATES:
            rate = vars(optimiser).get(name)
            if type(rate) in (int, float) and rate not in used and name not in self._told:
                looked_through = texts(self._source, frames, None, name)
                names = [last for last, each in _held(frames) if each is optimiser]
                ways = (assigned(self._source, looked_through, name, owner) for owner in dict.fromkeys(names))
                place = next(filter(None, ways), None)
                if not any(_is_read(under_way(self._source, frames), owner, name) for owner in names):
                    self._tell("unheard", optimiser, place, (("name", name), ("rate", f"{rate:g}")))

    def _by_itself(self, optimiser: Optimizer, frames: Sequence[FrameType]) -> None:
        """`LambdaLR` multiplies the first rate by what the function gives: one that gives a rate squares it."""
        group = optimiser.param_groups[0]
        first, now = group.get("initial_lr"), group.get("lr")
        if type(first) is not float or type(now) is not float or not 0 < first < 1:
            return
        found = next(((n, each) for n, each in _schedules(frames) if each.optimizer is optimiser), None)
        if found is not None and found[1].last_epoch == 0 and math.isclose(now, first * first):
            self._squared.add(optimiser)
        stays = found is not None and found[1].last_epoch >= LATER and 0 < now <= first * first * (1 + 1e-9)
        if found is not None and optimiser in self._squared and stays:
            place = bound(self._source, texts(self._source, frames, None, "LambdaLR"), found[0], _is_call)
            self._tell("squared", optimiser, place, (("first", f"{first:g}"), ("rate", f"{first * first:g}")))

    def stepped(self, optimiser: Optimizer) -> None:
        """One is about to step: by no rate, as so far?"""
        self._standing.stepped(optimiser)
        if any(group.get("lr") != 0 for group in optimiser.param_groups):
            self._steps[optimiser] = -1
        elif self._steps.get(optimiser, 0) >= 0:
            self._steps[optimiser] = self._steps.get(optimiser, 0) + 1

    def _nothing(self, optimiser: Optimizer, frames: Sequence[FrameType]) -> None:
        """The line that makes its schedule; without one, that sets the rate by hand, else that makes the optimiser."""
        looked_through, held = texts(self._source, frames, None), _held(frames)
        names = [last for last, each in held if each is optimiser]
        schedules = [last for last, each in held if is_a(each, LRScheduler) and each.optimizer is optimiser]
        by_hand = None if schedules else _set_in_groups(self._source, looked_through)
        ways = (bound(self._source, looked_through, name, _is_call) for name in dict.fromkeys([*schedules, *names]))
        place = by_hand or next(filter(None, ways), None)
        self._tell("nothing", optimiser, place, (("steps", str(MANY)),))

    def _tell(self, how: str, optimiser: Optimizer, place: Place | None, facts: tuple[tuple[str, str], ...]) -> None:
        leaves = [leaf for group in optimiser.param_groups for leaf in group["params"]]
        numbers = tuple(number for leaf in leaves if (number := self._tables.tensors.find(leaf)) is not None)
        if place is not None and numbers and f"{how} {place}" not in self._told:
            self._told |= {f"{how} {place}", *(word for key, word in facts if key == "name")}
            self._tables.clues.append(Clue("rate", self._tables.frames.now, place, numbers, (("how", how), *facts)))


def _is_read(looked_through: Sequence[Text], owner: str, name: str) -> bool:
    """Does the program look at that attribute: a mark of its own, by which it sets the groups?"""
    every = (each for _, tree in looked_through for each in ast.walk(tree) if isinstance(each, ast.Attribute))
    return any(each.attr == name and called(each.value) == owner and isinstance(each.ctx, ast.Load) for each in every)


def _held(frames: Sequence[FrameType]) -> list[tuple[str, Any]]:
    """(the last part of its name, what it is), of all that the user's functions reach."""
    reach = Reach(list(frames))
    return [(name.rpartition(".")[2], each) for frame in frames for name, each in reach.of(frame)]


def _schedules(frames: Sequence[FrameType]) -> list[tuple[str, LambdaLR]]:
    return [(name, each) for name, each in _held(frames) if is_a(each, LambdaLR) and isinstance(each, LambdaLR)]


def _is_call(value: ast.expr) -> bool:
    return isinstance(value, ast.Call)


def _set_in_groups(source: Source, looked_through: Sequence[Text]) -> Place | None:
    """`group["lr"] = …`."""
    for file, tree in looked_through:
        for each in ast.walk(tree):
            match each:
                case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value="lr"))]):
                    return source.at(file, each.lineno)
    return None
