"""Rates that stand still although a line was to move them, or that are 0 for a part of what is to learn.

Each is asked of the optimiser's own numbers at its steps, and told with the line that was to do it.
"""

from __future__ import annotations

import ast
import re
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer

from seegrad.capture.probes.places import Source, nodes
from seegrad.capture.probes.source_text import bound, call_of, called, given_in, texts
from seegrad.capture.probes.variables import Reach, is_a
from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue, Place

MANY = 8
"""Steps by one rate: fewer may be a warm-up, or an epoch."""

SEVERAL = 3
"""So many schedules have to be met in the steps that are looked at: one may be for what comes later."""

A_RATE = re.compile(r"(?:^|[\W_])(?:lr|rate|lrs|rates)(?:$|[\W_])")
"""What stands in the name of a rate."""

SHOWS = frozenset({"print", "info", "debug", "warning", "log", "write", "set_postfix", "set_description", "add_scalar"})
"""Calls that only show what they're given."""

OPTIMISERS = frozenset(name for name in vars(torch.optim) if name[:1].isupper()) - {"Optimizer"}
READS_ALL = "locals", "vars", "globals", "getattr", "asdict", "__dict__"
PATHS = ast.Name | ast.Attribute
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class _SameRates:
    """What the steps of an optimiser have had so far."""

    rates: tuple[object, ...]  # of its groups, at its first step
    steps: int = 0
    moved: bool = False  # one of them has been another since
    beside: set[str] = field(default_factory=set)  # names that held the rate at the first step
    schedules: weakref.WeakSet[LRScheduler] = field(default_factory=weakref.WeakSet)
    anew: int = 0  # schedules that were met


class StandingRates:
    """What is found, once for each optimiser."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._seen = weakref.WeakKeyDictionary[Optimizer, _SameRates]()
        self._told: set[str] = set()

    def stepped(self, optimiser: Optimizer) -> None:
        """One is about to step."""
        given = (group.get("lr") for group in optimiser.param_groups)
        rates = tuple(rate if type(rate) in (int, float) else object() for rate in given)  # a tensor may have moved
        seen = self._seen.setdefault(optimiser, _SameRates(rates))
        seen.steps += 1
        seen.moved |= rates != seen.rates

    def look(self, optimiser: Optimizer, frames: Sequence[FrameType]) -> None:
        """It is about to step, for the first time, the second, the fourth, …"""
        seen = self._seen.get(optimiser)
        if seen is None or seen.moved:
            return
        reach = Reach(list(frames))
        held = [each for frame in frames for each in reach.of(frame)]
        self._schedules(optimiser, seen, held, frames)
        self._by_name(optimiser, seen, held, frames)
        if seen.steps == MANY:
            self._group(optimiser, seen, frames)

    # -- a schedule that begins again and again

    def _schedules(
        self, optimiser: Optimizer, seen: _SameRates, held: Sequence[tuple[str, Any]], frames: Sequence[FrameType]
    ) -> None:
        found = [(name, each) for name, each in held if is_a(each, LRScheduler) and each.optimizer is optimiser]
        fresh = [(name, each) for name, each in found if each not in seen.schedules]
        if len({id(each) for _, each in found}) != 1 or not fresh:
            return
        name, schedule = fresh[0][0].rpartition(".")[2], fresh[0][1]
        seen.schedules.add(schedule)
        seen.anew += 1
        if seen.anew >= SEVERAL and seen.steps >= MANY:
            written = texts(self._source, frames, None, type(schedule).__name__)
            place = bound(self._source, written, name, lambda value: isinstance(value, ast.Call))
            if place is not None and call_of(self._source, written, name, "step") is not None:
                facts = (("schedule", type(schedule).__name__), ("rate", _said(seen.rates)), ("steps", str(seen.steps)))
                self._tell("schedule", optimiser, place, facts)

    # -- a name that held the rate, and is given another

    def _by_name(
        self, optimiser: Optimizer, seen: _SameRates, held: Sequence[tuple[str, Any]], frames: Sequence[FrameType]
    ) -> None:
        numbers = [
            (name, each) for name, each in held if type(each) is float and A_RATE.search(name.rpartition(".")[2])
        ]
        if seen.steps == 1:
            seen.beside = {name for name, each in numbers if each in seen.rates}
        for name in [name for name, each in numbers if name in seen.beside and each not in seen.rates]:
            place = self._moved_alone(name, frames)
            seen.beside.discard(name)
            if place is not None:
                self._tell("name", optimiser, place, (("name", name), ("rate", _said(seen.rates))))

    def _moved_alone(self, name: str, frames: Sequence[FrameType]) -> Place | None:
        """The line that gives it another value, computed of the old one; None where anything else may read it."""
        own = name.rpartition(".")[2]
        for file in dict.fromkeys(frame.f_code.co_filename for frame in reversed(frames)):
            for scope in _scopes(nodes(self._source.text(file)), own, name):
                moves = [each for each in ast.walk(scope) if _moves(each, own)]
                read = [each for each in _reads(scope, own) if not any(_is_in(each, move) for move in moves)]
                if moves and all(_is_given_or_shown(scope, each) for each in read):
                    return self._source.at(file, max(getattr(move, "lineno", 0) for move in moves))
        return None

    # -- a group by no rate at all, among others that learn

    def _group(self, optimiser: Optimizer, seen: _SameRates, frames: Sequence[FrameType]) -> None:
        still = [at for at, rate in enumerate(seen.rates) if rate == 0]
        groups = [optimiser.param_groups[at] for at in still]
        leaves = [leaf for group in groups for leaf in group["params"] if leaf.grad is not None]
        if not leaves or len(still) == len(seen.rates) or any(group.get("initial_lr") for group in groups):
            return
        written = texts(self._source, frames, None)
        if any(_is_meant(each) for _, tree in written for each in ast.walk(tree)):
            return
        place = self._of_group(written, still[0], len(seen.rates))
        if place is not None:
            numbers = (self._tables.tensors.find(leaf) for leaf in leaves)
            known = tuple(number for number in numbers if number is not None)
            self._tell("group", optimiser, place, (("steps", str(MANY)),), known)

    def _of_group(self, written: Sequence[tuple[str, ast.AST]], at: int, count: int) -> Place | None:
        """The line of that group's rate in a list of so many groups."""
        for file, tree in written:
            for each in ast.walk(tree):
                if isinstance(each, ast.List) and len(each.elts) == count:
                    rates = [_rate(group) for group in each.elts]
                    if rates[at] is not None:
                        return self._source.at(file, getattr(rates[at], "lineno", each.lineno))
        return None

    def _tell(
        self,
        how: str,
        optimiser: Optimizer,
        place: Place,
        facts: tuple[tuple[str, str], ...],
        known: tuple[int, ...] = (),
    ) -> None:
        leaves = (leaf for group in optimiser.param_groups for leaf in group["params"])
        numbers = (self._tables.tensors.find(leaf) for leaf in leaves)
        found = known or tuple(number for number in numbers if number is not None)
        if f"{how} {place}" not in self._told and found:
            self._told.add(f"{how} {place}")
            self._tables.clues.append(Clue("standing", self._tables.frames.now, place, found, (("how", how), *facts)))


def _said(rates: Sequence[object]) -> str:
    return ", ".join(dict.fromkeys(f"{rate:g}" if isinstance(rate, float) else str(rate) for rate in rates))


def _scopes(every: Sequence[ast.AST], own: str, name: str) -> Iterator[ast.AST]:
    """The function in which a variable of that name is moved, its own; of an attribute, or a global, the file."""
    inner = [each for each in every if isinstance(each, Function) and any(_moves(part, own) for part in ast.walk(each))]
    if "." in name or not inner:
        yield from every[:1]
    elif len(inner) == 1 and not any(isinstance(part, ast.Global | ast.Nonlocal) for part in ast.walk(inner[0])):
        yield inner[0]


def _moves(each: ast.AST, name: str) -> bool:
    """`rate *= 0.9`, `self.rate = self.rate / 2`, `rate = args.rate * 0.1 ** (epoch // 30)`."""
    match each:
        case ast.AugAssign(target=ast.Name() | ast.Attribute() as target, op=ast.Mult() | ast.Div()):
            return called(target) == name
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value) if called(target) == name:
            parts = list(ast.walk(value))
            scaled = any(isinstance(part, ast.Mult | ast.Div | ast.Pow) for part in parts)
            return scaled and any(isinstance(part, PATHS) and _is_a_rate(called(part)) for part in parts)
    return False


def _is_read_as(each: ast.AST, name: str) -> bool:
    return isinstance(each, PATHS) and isinstance(each.ctx, ast.Load) and called(each) == name


def _reads(scope: ast.AST, name: str) -> list[ast.AST]:
    """Whatever reads that name there, or all names."""
    return [each for each in ast.walk(scope) if any(_is_read_as(each, word) for word in (name, *READS_ALL))]


def _is_in(part: ast.AST, whole: ast.AST) -> bool:
    return any(each is part for each in ast.walk(whole))


def _is_given_or_shown(scope: ast.AST, read: ast.AST) -> bool:
    """Is it what one of torch's optimisers is made with, or only looked at, or kept under the same name?"""
    for each in ast.walk(scope):
        match each:
            case ast.Call(func=func, args=args, keywords=words) if called(func) in OPTIMISERS:
                if any(given is read for given in (*args, *(word.value for word in words))):
                    return True
            case ast.Call(func=func) if called(func) in SHOWS and _is_in(read, each):
                return True
            case ast.Compare() if _is_in(read, each):
                return True
        if any(value is read and called(target) == called(value) for target, value in given_in(each)):
            return True
    return False


def _is_meant(each: ast.AST) -> bool:
    """Does somebody write 0 for a rate, or set a group's rate by hand, perhaps later?"""
    match each:
        case ast.Subscript(slice=ast.Constant(value="lr"), ctx=ast.Store()):
            return True
        case ast.Dict(keys=keys, values=values):
            given = [
                (key.value, value) for key, value in zip(keys, values, strict=True) if isinstance(key, ast.Constant)
            ]
        case ast.keyword(arg=name, value=value):
            given = [(name, value)]
        case ast.Assign(targets=[target], value=value):
            given = [(called(target), value)]
        case ast.arguments(args=args, defaults=values, kwonlyargs=others, kw_defaults=theirs):
            own = zip([*args[len(args) - len(values) :], *others], [*values, *theirs], strict=True)
            given = [(arg.arg, value) for arg, value in own if value is not None]
        case ast.Call(func=ast.Attribute(attr="add_argument"), args=[ast.Constant(value=name), *_], keywords=words):
            given = [(name, word.value) for word in words if word.arg == "default"]
        case ast.Tuple(elts=values) | ast.List(elts=values):
            return any(_is_zero(value, float) for value in values)
        case _:
            return False
    return any(_is_zero(value) and _is_a_rate(name) for name, value in given)


def _is_zero(value: ast.expr, kind: type = object) -> bool:
    found = value.value if isinstance(value, ast.Constant) else None
    return type(found) in (int, float) and isinstance(found, kind) and found == 0


def _is_a_rate(name: object) -> bool:
    return isinstance(name, str) and A_RATE.search(name) is not None


def _rate(group: ast.expr) -> ast.expr | None:
    """What stands for "lr" in `{"params": …, "lr": …}`."""
    if not isinstance(group, ast.Dict):
        return None
    pairs = zip(group.keys, group.values, strict=True)
    return next((value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "lr"), None)
