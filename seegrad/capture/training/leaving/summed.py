"""Gradients that are kept after one backward call, and again after a further one that has added to them.

What a step goes by, or somebody writes into the leaf, is a sum that was meant: such lines are never told. Nor are those
that subtract what they had before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source, around, nodes
from seegrad.capture.probes.source_text import called
from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue, Place

KEEPS = frozenset(
    {"clone", "flatten", "view", "reshape", "ravel", "norm", "abs", "pow", "square", "sum", "mean", "std", "var", "max"}
)
"""Methods by which the numbers of a gradient are kept, or what is computed of them."""

HANDS_ON = frozenset({"data", "detach", "cpu"})
SHOWS = frozenset({"print", "info", "debug", "display"})
MOST = 4_096
"""So many gradients are remembered; more, and all are forgotten."""

MOST_READS = 8
"""So many reads of each."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class _Kept:
    """One read: by which line, and how often the gradient had been written."""

    leaf: int
    version: int
    place: Place


class SummedReads:
    """Of each gradient its reads so far, by its storage; and the pairs of them that are told, unless it's used."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._reads: dict[int, list[_Kept]] = {}
        self._owners: dict[int, int] = {}  # storage of a leaf → that of its gradient
        self._waiting: dict[int, list[Clue]] = {}  # of a gradient that a step may use
        self._meant: set[Place] = set()
        self._keeping: dict[Place, bool] = {}

    def read(self, leaf: torch.Tensor, number: int, place: Place) -> None:
        """A line of the user's reads the gradient of a leaf."""
        key, own = _torch.storage_key(leaf.grad) if leaf.grad is not None else None, _torch.storage_key(leaf)
        version = _torch.version(leaf.grad) if leaf.grad is not None else None
        if key is None or own is None or version is None or place in self._meant or not self._keeps(place):
            return
        if len(self._reads) > MOST:
            self._reads.clear()
            self._owners.clear()
        self._owners[own] = key
        before = [each for each in self._reads.get(key, ()) if each.leaf == number]
        fits = (each for each in before if each.version < version and self._may_differ(leaf, each.place, place))
        first = next(fits, None)
        told = {each.place for each in self._tables.clues if each.kind == "summed"} if first is not None else set()
        if first is not None and place not in told:
            facts = (("first", str(first.place.line)),)
            clue = Clue("summed", self._tables.frames.now, place, (number,), facts)
            self._tables.clues.append(clue)
            self._waiting.setdefault(key, []).append(clue)
        elif first is not None and key not in self._waiting:
            self._waiting[key] = [each for each in self._tables.clues if (each.kind, each.place) == ("summed", place)]
        if not any((each.place, each.version) == (place, version) for each in before):
            self._reads[key] = [*before[-MOST_READS:], _Kept(number, version, place)]

    def _may_differ(self, leaf: torch.Tensor, first: Place, again: Place) -> bool:
        """One line in a loop, or two for a Parameter: what a lesson shows of a variable are two lines, too."""
        return first == again or isinstance(leaf, torch.nn.Parameter)

    @property
    def watches(self) -> bool:
        """Has any line kept a gradient that is still there?"""
        return bool(self._reads)

    def used(self, keys: Iterable[int]) -> None:
        """A step goes by these."""
        for key in keys if self._waiting else ():
            self._mean(key)

    def written(self, key: int) -> None:
        """A call has written to that storage: a gradient that was scaled, say, or a leaf that was changed."""
        if key in self._owners:
            self._mean(self._owners[key])
        self._reads.pop(key, None)

    def gone(self, key: int) -> None:
        """That gradient is no longer what it was, or isn't there."""
        self._reads.pop(key, None)
        self._waiting.pop(key, None)

    def _mean(self, key: int) -> None:
        found = self._waiting.pop(key, [])
        self._meant |= {each.place for each in found}
        if found:
            clues = self._tables.clues
            clues[:] = [each for each in clues if each.kind != "summed" or each.place not in self._meant]

    # -- what the line does with it

    def _keeps(self, place: Place) -> bool:
        if place not in self._keeping:
            self._keeping[place] = self._is_keeping(place)
        return self._keeping[place]

    def _is_keeping(self, place: Place) -> bool:
        within = around(self._source.text(place.file), place.line)
        simple = [each for each in within if isinstance(each, ast.stmt) and not hasattr(each, "body")]
        statement = simple[-1] if simple else None
        if statement is None or isinstance(statement, ast.Assert) or _is_shown(statement):
            return False
        scope = next((each for each in reversed(within) if isinstance(each, Function | ast.Module)), None)
        parts = list(ast.walk(scope)) if scope is not None else list(nodes(self._source.text(place.file)))
        return any(_is_kept(each) for each in ast.walk(statement)) and not _subtracted(parts, _names(statement))


def _is_kept(each: ast.AST) -> bool:
    """`p.grad.clone()`, `p.grad.data.norm(2)`, `torch.norm(p.grad)`, `p.grad ** 2`."""
    if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Pow):
        return _is_gradient(each.left)
    if not isinstance(each, ast.Call):
        return False
    if isinstance(each.func, ast.Attribute) and each.func.attr in KEEPS:
        return any(_is_gradient(given) for given in (each.func.value, *each.args[:1]))
    return False


def _is_gradient(value: ast.expr) -> bool:
    while True:
        match value:
            case ast.Attribute(attr="grad"):
                return True
            case ast.Attribute(attr=name, value=inner) if name in HANDS_ON:
                value = inner
            case ast.Call(func=ast.Attribute(attr=name, value=inner)) if name in HANDS_ON:
                value = inner
            case _:
                return False


def _is_shown(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=func)):
            return called(func) in SHOWS
    return False


def _names(statement: ast.stmt) -> set[str]:
    """The names under which a statement keeps something: `flat = …`, `norms[name] = …`, `found.append(…)`."""
    match statement:
        case ast.Assign(targets=targets):
            kept = list(targets)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            kept = [target]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))):
            kept = [owner]
        case _:
            kept = []
    return {each.id for target in kept for each in ast.walk(target) if isinstance(each, ast.Name)} | {"grad"}


def _subtracted(parts: Iterable[ast.AST], names: set[str]) -> bool:
    """Does a statement subtract, or a loop over them, where these names stand?"""
    for each in parts:
        if isinstance(each, ast.stmt) and (not hasattr(each, "body") or isinstance(each, ast.For)):
            inner = list(ast.walk(each))
            speaks = list(ast.walk(each.iter)) if isinstance(each, ast.For) else inner
            named = any(_called(part) in names for part in speaks)
            if named and any(isinstance(part, ast.Sub) or _called(part) in ("sub", "sub_") for part in inner):
                return True
    return False


def _called(part: ast.AST) -> str:
    return part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
