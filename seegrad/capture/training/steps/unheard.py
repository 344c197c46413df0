"""A module's own method called `backward`: autograd asks torch.autograd.Functions alone for theirs, no module.

It's a mistake where it is written as one writes a Function's: given a gradient, it returns one. A method that calls
backward itself is a trainer's; one that is called, or handed on, somewhere in the text is hand-written backprop.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from seegrad.capture.probes.places import Source, definitions, is_users, nodes
from seegrad.capture.probes.variables import Reach, is_a
from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue, Place

METHOD = "backward"
ENGINES = frozenset({"accelerator", "fabric", "scaler", "amp", "self.accelerator", "self.fabric", "super()"})
"""Whose `backward(loss)` starts the engine."""


class UnheardBackwards:
    """Each class is looked at once."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._seen, self._read = set[type](), set[type]()

    def look(self, optimiser: torch.optim.Optimizer, reach: Reach) -> None:
        """The optimiser is about to step."""
        leaves = [leaf for group in optimiser.param_groups for leaf in group["params"]]
        numbers = (self._tables.tensors.find(leaf) for leaf in leaves if leaf.grad is not None)
        found = tuple(number for number in numbers if number is not None)
        for kind in self._kinds(reach) if found else ():
            place = self._unheard(kind, reach.frames)
            if place is not None:
                owner = ("owner", kind.__name__)
                self._tables.clues.append(Clue("backward", self._tables.frames.now, place, found[:1], (owner,)))

    def _kinds(self, reach: Reach) -> Iterator[type]:
        """The classes, not seen before, of modules among variables and of their own, and of those made for one call."""
        for frame in reach.frames:
            for name, value in reach.of(frame):
                kinds = [type(each) for each in torch.nn.Module.modules(value)] if is_a(value, torch.nn.Module) else ()
                for kind in kinds or ([value] if self._is_made(name, value) else ()):
                    if kind not in self._seen:
                        self._seen.add(kind)
                        yield kind

    def _is_made(self, name: str, value: Any) -> bool:
        """Is it a class of modules that its file's text makes one of: `Reverse(scale)(x)`, which no variable holds?"""
        if not is_a(value, type) or value in self._read or not issubclass(value, torch.nn.Module):
            return False
        self._read.add(value)
        code = _own(value)
        inner = nodes(self._source.text(code.co_filename)) if code is not None and is_users(code.co_filename) else ()
        calls = (each.func for each in inner if isinstance(each, ast.Call))
        return any(isinstance(each, ast.Name) and each.id == name for each in calls)

    def _unheard(self, kind: type, frames: Sequence[FrameType]) -> Place | None:
        """The line of the method, where it's written for the engine and nobody calls it."""
        code = _own(kind)
        if code is None or code.co_flags & inspect.CO_GENERATOR or not is_users(code.co_filename):
            return None
        written = (
            each for each in definitions(self._source.text(code.co_filename)) if isinstance(each, ast.FunctionDef)
        )
        method = next((each for each in written if each.name == METHOD and _begins(each) == code.co_firstlineno), None)
        if method is None or not _gives_back(method):
            return None
        files = {code.co_filename, *(frame.f_code.co_filename for frame in frames)}
        if any(_is_taken_up(nodes(self._source.text(file))) for file in files):
            return None
        return self._source.at(code.co_filename, method.lineno)


def _own(kind: type) -> CodeType | None:
    """What was compiled of the method that a class defines beside its `forward`."""
    own, forward = vars(kind).get(METHOD), vars(kind).get("forward")
    function = getattr(own, "__func__", own)  # a static one
    both = isinstance(function, FunctionType) and isinstance(forward, FunctionType)
    return function.__code__ if both and isinstance(function, FunctionType) else None


def _begins(method: ast.FunctionDef) -> int:
    return min([method.lineno, *(each.lineno for each in method.decorator_list)])


def _gives_back(method: ast.FunctionDef) -> bool:
    """Is it given a gradient, and returns something, and calls no engine itself? A flow's inverse is given a result."""
    inner, names = list(ast.walk(method)), [each.arg for each in (*method.args.args, method.args.vararg) if each]
    given = any(name == "ctx" or "grad" in name for name in names)
    returns = any(isinstance(each, ast.Return) and each.value is not None for each in inner)
    calls = (each.func for each in inner if isinstance(each, ast.Call))
    asks = any(isinstance(each, ast.Attribute) and each.attr in ("grad", METHOD) for each in calls)
    return given and returns and not asks


def _names(each: ast.AST) -> bool:
    return isinstance(each, ast.Attribute) and each.attr == METHOD


def _is_taken_up(inner: Sequence[ast.AST]) -> bool:
    """Does a text call a `backward` of its own, with what comes in, or hand one on: `register_hook(self.backward)`?"""
    started = set[ast.AST]()
    for each in inner:
        match each:
            case ast.Call(func=ast.Attribute(attr="backward", value=owner) as named, args=given):
                if not given or ast.unparse(owner) in ENGINES:
                    started.add(named)
    return any(_names(each) and each not in started for each in inner)
