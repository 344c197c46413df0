"""Another Parameter in the place of a module's own: `layer.weight = …`, `load_state_dict(…, assign=True)`; or a module.

None is a call of torch that is recorded. A module tells whoever asks of each Parameter that it's given, and of each
module; whether an optimiser holds the new one shows when one steps.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Literal

import torch
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source, outside_packages, user_frame, user_frames
from seegrad.capture.probes.torch_private import WeakTensor
from seegrad.capture.tables import Tables
from seegrad.capture.training.made import MadeOptimisers
from seegrad.capture.training.steps.let_go import LetGo
from seegrad.capture.training.steps.untied import TiedParameters
from seegrad.model.recording import Clue, Place

MOST = 10_000
"""So many are remembered from one look to the next."""


Kind = Literal["assigned", "exchanged", "rebuilt"]
"""A Parameter by itself, or with a module; of a module that is built although an optimiser is made already."""


@dataclass(eq=False, slots=True)
class _Replacement:
    """A Parameter, how and on which line it came there, what it replaced, the line whose optimiser holds that."""

    new: WeakTensor
    kind: Kind
    place: Place | None
    old: WeakTensor | None = None
    holder: Place | None = None


class AssignedParameters:
    """Those that took another's place, with the line that put them there."""

    def __init__(
        self, tables: Tables, source: Source, tied: TiedParameters, let_go: LetGo, made: MadeOptimisers
    ) -> None:
        self._tables, self._source, self._tied, self._let_go, self._made = tables, source, tied, let_go, made
        self._found: list[_Replacement] = []
        self._thawed: list[tuple[int, WeakTensor, Place, Place | None]] = []

    def watch(self, quietly: Callable[..., object]) -> Callable[[], None]:
        """From now on, in this thread; what's returned ends it."""
        thread = threading.get_ident()

        def given(module: torch.nn.Module, name: str, new: object) -> None:
            if threading.get_ident() == thread and not torch.compiler.is_compiling():
                quietly(self._given, module, name, new)

        handles = register_module_parameter_registration_hook(given), register_module_module_registration_hook(given)

        def end() -> None:
            for handle in handles:
                handle.remove()

        return end

    def _given(self, module: torch.nn.Module, name: str, new: object) -> None:
        """A module is about to hold a Parameter, or another module, under a name."""
        kind: Kind
        if isinstance(new, torch.nn.Parameter):
            self._tied.given(module, name, new)
            self._let_go.given(module, user_frame(sys._getframe(1)))
            beside = dict[str, object](torch.nn.Module.named_parameters(module, recurse=False))
            kind, parameters = "assigned", [new]
        elif isinstance(new, torch.nn.Module):
            beside = dict[str, object](torch.nn.Module.named_children(module))
            kind, parameters = "exchanged", list(torch.nn.Module.parameters(new))
        else:
            return
        if kind == "assigned" and self._made.places and len(self._found) < MOST:
            self._found.append(_Replacement(WeakTensor(parameters[0]), "rebuilt", self._built()))
        old = beside.get(name)
        if old is not None and old is not new and len(self._found) < MOST:
            self._thawed_by(old, new)
            place, holder = self._lines(old)
            before = WeakTensor(old) if isinstance(old, torch.Tensor) else None
            self._found += [_Replacement(WeakTensor(each), kind, place, before, holder) for each in parameters]

    def _thawed_by(self, old: object, new: torch.nn.Module | torch.nn.Parameter) -> None:
        """Note which frozen Parameters others take the place of that have their numbers and require grad."""
        taken = [
            (o, n) for o, n in _by_name(old, new) if not o.requires_grad and n.requires_grad and _has_numbers_of(n, o)
        ]
        numbers = [(self._tables.tensors.find(o), n) for o, n in taken]
        frames = outside_packages(user_frames(user_frame(sys._getframe(1)), None))
        place = self._source.place(frames[-1] if frames else None)
        asks = self._source.place(frames[-2] if len(frames) > 1 else None)
        if place is not None and len(self._thawed) < MOST:
            self._thawed += [(number, WeakTensor(n), place, asks) for number, n in numbers if number is not None]

    def _tell_thawed(self) -> None:
        """Tell of those that calls have shown, each with the frozen one that it stands for."""
        waiting, self._thawed = self._thawed, []
        for old, ref, place, asks in waiting:
            new = ref()
            number = None if new is None else self._tables.tensors.find(new)
            if number is not None:
                self._tables.clues.append(Clue("thawed", self._tables.frames.now, place, (number, old)))
                if asks is not None:
                    self._tables.clues.append(Clue("asks", self._tables.frames.now, asks, (number,)))
            elif new is not None:
                self._thawed.append((old, ref, place, asks))

    def _lines(self, old: object) -> tuple[Place | None, Place | None]:
        """The line that does so, and the one by which an optimiser holds the old ones.

        Of a module, in the function from which that optimiser came, which can do this first.
        """
        inner = user_frame(sys._getframe(1))
        if isinstance(old, torch.nn.Module):
            around, holder = self._made.apart(torch.nn.Module.parameters(old), user_frames(inner, None))
            return self._source.place(around or inner), holder
        _around, holder = self._made.apart([old] if isinstance(old, torch.Tensor) else (), ())
        return self._source.place(inner), holder

    def _built(self) -> Place | None:
        """The line that builds all that a Parameter is built with, in a function that made an optimiser, or at least
        outside of any module.
        """
        frames = user_frames(user_frame(sys._getframe(1)), None)
        building = (at for at, frame in enumerate(frames) if _is_building(frame))
        outside = outside_packages(frames[: max(next(building, len(frames)), 1)])
        makers = self._made.makers()
        around = (frame for frame in reversed(outside) if frame.f_code in makers)
        return self._source.place(next(around, outside[-1] if outside else None))

    def look(self) -> None:
        """Tell of those that calls have shown by now, the ones of a line together; does anyone hold the old ones?"""
        places: dict[tuple[Kind, Place, bool], list[int]] = {}
        holders: dict[Place, list[int]] = {}
        waiting = []
        for each in self._found:
            parameter = each.new()
            number = None if parameter is None else self._tables.tensors.find(parameter)
            if number is not None and each.place is not None:
                held = each.old is not None and each.old() is not None
                places.setdefault((each.kind, each.place, held), []).append(number)
                if each.holder is not None:
                    holders.setdefault(each.holder, []).append(number)
            elif parameter is not None:
                waiting.append(each)
        self._found = waiting
        self._tell_thawed()
        for place, numbers in holders.items():
            self._tables.clues.append(Clue("holder", self._tables.frames.now, place, tuple(numbers)))
        for (kind, place, held), numbers in places.items():
            facts = (("held", str(int(held))),)
            self._tables.clues.append(Clue(kind, self._tables.frames.now, place, tuple(numbers), facts))


def _by_name(old: object, new: object) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Two Parameters; of two modules, those of one and what stands for them in the other."""
    mine, theirs = _named(old), _named(new)
    return [(each, theirs[name]) for name, each in mine.items() if name in theirs and theirs[name] is not each]


def _named(held: object) -> dict[str, torch.Tensor]:
    if isinstance(held, torch.nn.Module):
        return dict[str, torch.Tensor](torch.nn.Module.named_parameters(held))
    return {"": held} if isinstance(held, torch.Tensor) else {}


def _has_numbers_of(new: torch.Tensor, old: torch.Tensor) -> bool:
    """Does it begin with them, or they with its own: rows were added, or left out? No device waits for it."""
    alike = (new.shape[1:], new.device, new.dtype) == (old.shape[1:], old.device, old.dtype)
    if (
        not alike
        or old.device.type != "cpu"
        or new.dim() != old.dim()
        or not _torch.has_numbers(new)
        or not _torch.has_numbers(old)
    ):
        return False
    rows = min(new.shape[0], old.shape[0]) if new.dim() else 0
    part = old.detach()[:rows]
    return rows > 0 and torch.equal(new.detach()[:rows], part) and bool((part != part.flatten()[0]).any())


def _is_building(frame: FrameType) -> bool:
    """Is this a module's constructor?"""
    names = frame.f_code.co_varnames[:1] if frame.f_code.co_name == "__init__" else ()
    return any(isinstance(frame.f_locals.get(name), torch.nn.Module) for name in names)
