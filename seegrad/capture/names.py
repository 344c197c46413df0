"""When to look at the user's variables for names: as seldom as names can have changed."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from itertools import chain
from types import FrameType
from typing import Any

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.variables import (
    attributes,
    held_tensors,
    is_a,
    module_tensors,
    modules,
    plain_tensors,
    spoken_of,
    variables,
)
from seegrad.capture.tables.tensors import Tensors

Position = tuple[int, int]
"""A frame's address and the instruction it's at."""

Space = FrameType | dict[str, Any]


class VariableNames:
    """Gives the tensors of one Recording the names of the user's variables: the outermost frame's name wins.

    A variable is bound when its statement ends. So the plain variables are read at an event whose position has moved
    on since the last one; lists, dicts and modules only where that can matter: before a backward, for a tensor that
    nobody knows, and at the end.
    """

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._positions: list[Position] = []
        self._walked: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._paths: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}

    def start(self, frames: Sequence[FrameType]) -> None:
        """Remember what exists, and under which name, before the block runs."""
        for space in map(_whole, frames):
            for name, tensor in chain(held_tensors(space), self._in_modules(space)):
                self._tensors.foresee(tensor, name, existed=True)

    def event(self, frames: Sequence[FrameType], *, direct: bool) -> list[torch.Tensor]:
        """A call of torch begins; `direct`: the innermost frame makes it, not a function of torch's.

        Returns the variables that no recorded call made although they have a graph.
        """
        now = [(id(frame), frame.f_lasti) for frame in frames]
        before, self._positions = self._positions, now
        if now == before and not direct:
            return []
        moved = frames[-1:] if _moved_on(before, now) else frames
        return self._tensors.name_from(chain.from_iterable(map(plain_tensors, moved)))

    def everything(self, spaces: Sequence[Space]) -> list[torch.Tensor]:
        """Read the variables, what lists and dicts hold, and modules that are new."""
        found = list(map(_whole, spaces))
        return self._read([*found, *(attributes({"self": held["self"]}) for held in found if _is_plain(held))])

    def afresh(self, spaces: Sequence[Space]) -> list[torch.Tensor]:
        """Read all that `everything` reads, modules that aren't new, too, and what the user's objects hold."""
        self._walked.clear()
        found = [dict(variables(space)) for space in spaces]
        return self._read([*found, *map(attributes, found)])

    def _read(self, found: Sequence[dict[str, Any]]) -> list[torch.Tensor]:
        unseen = self._tensors.name_from(chain.from_iterable(map(held_tensors, found)))
        for name, tensor in chain.from_iterable(map(self._in_modules, found)):
            self._tensors.foresee(tensor, name)
        return unseen

    def _in_modules(self, space: Space) -> Iterable[tuple[str, torch.Tensor]]:
        for name, module in modules(space):
            known = self._walked.get(id(module))
            if known is None or known() is not module:
                self._walked[id(module)] = weakref.ref(module)
                self._learn_paths(name, module)
                yield from module_tensors(name, module)

    # -- modules

    def module(self, frame: FrameType | None, block: FrameType | None) -> str:
        """Path of the innermost module whose forward is running: `model.layers.0.linear1`; empty outside of any."""
        while frame is not None and frame is not block:
            if frame.f_code is _torch.MODULE_CALL:
                return self._path(frame, block)
            frame = frame.f_back
        return ""

    def _path(self, frame: FrameType, block: FrameType | None) -> str:
        module = frame.f_locals.get("self")  # torch's own frame, which holds the module for as long as it lasts
        entry = self._paths.get(id(module))
        if entry is None or entry[0]() is not module:
            self._learn_paths("", self._outermost(frame, block))
            entry = self._paths.get(id(module))
        return entry[1] if entry is not None else type(module).__name__

    def _outermost(self, frame: FrameType, block: FrameType | None) -> Any:
        """The module that the user called: no variable of theirs holds it."""
        called = frame
        step: FrameType | None = frame
        while step is not None and step is not block:
            called = step if step.f_code is _torch.MODULE_CALL else called
            step = step.f_back
        return called.f_locals.get("self")

    def _learn_paths(self, name: str, module: Any) -> None:
        if not is_a(module, torch.nn.Module):
            return
        for path, each in torch.nn.Module.named_modules(module, prefix=name or type(module).__name__):
            known = self._paths.get(id(each))
            if known is None or known[0]() is not each:
                self._paths[id(each)] = (weakref.ref(each), path)


def _whole(space: Space) -> dict[str, Any]:
    """The variables, a function's global ones too; no module that's half built: who asked for it will have it whole."""
    found = dict(variables(space))
    if isinstance(space, dict):
        return found
    if space.f_code.co_name == "__init__":
        found.pop("self", None)
    return spoken_of(space) | found


def _is_plain(held: dict[str, Any]) -> bool:
    """True in a method of an object that isn't a module."""
    return "self" in held and not is_a(held["self"], torch.nn.Module)


def _moved_on(before: Sequence[Position], now: Sequence[Position]) -> bool:
    """True when nothing but the innermost frame has gone on, and forwards: no other frame has ended a statement."""
    if len(before) != len(now) or not now or before[:-1] != now[:-1]:
        return False
    return before[-1][0] == now[-1][0] and before[-1][1] < now[-1][1]
