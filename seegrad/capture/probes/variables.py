"""Which variable of the user holds which tensor, and when to look: as seldom as names can have changed."""

from __future__ import annotations

import contextlib
import dis
import inspect
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import CodeType, FrameType, FunctionType, MemberDescriptorType, ModuleType, UnionType
from typing import Any

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import LOADING
from seegrad.model.recording import LOADER

OWN_REFERENCES = 3
"""References to a frame's copy of its variables that are the frame's, ours, and the question's own."""

COPIES = sys.version_info < (3, 13)
"""A function's `f_locals` is a copy, which the frame keeps."""

MAX_ITEMS = 64
"""Longest list or dict of the user that is searched for tensors."""

# fmt: off
SCALARS = frozenset({int, float, bool, str, type(None), complex, slice, torch.dtype, torch.device, torch.Size})
# fmt: on
"""Types of arguments that hold no tensor: most arguments are one of these."""

Named = Iterator[tuple[str, torch.Tensor]]

Position = tuple[int, int]
"""A frame's address and the instruction it's at."""

Space = FrameType | dict[str, Any]


def plain_tensors(frame: FrameType) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor) for the variables that are tensors. Of a module's variables, those that its code speaks of."""
    if frame.f_code.co_name != "<module>":
        return variables_of(frame, _tensors_among)
    held, code = frame.f_globals.get, frame.f_code
    found = [(name, value) for name in code.co_names if (value := held(name)) is not None]
    return [each for each in found if issubclass(type(each[1]), torch.Tensor) and each[0][:1] != "_"]


def _tensors_among(space: Mapping[str, Any]) -> list[tuple[str, torch.Tensor]]:
    found = [each for each in list(space.items()) if issubclass(type(each[1]), torch.Tensor)]
    return [each for each in found if each[0][:1] != "_"]


def spoken_of(frame: FrameType) -> dict[str, Any]:
    """The module's variables of which the frame's code speaks."""
    return {name: frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals}


def held_tensors(space: Space) -> Named:
    """(name, tensor) for the variables that are tensors, then for the items of lists, tuples and dicts."""
    found = variables(space)
    yield from ((name, value) for name, value in found if is_a(value, torch.Tensor))
    for name, value in found:
        yield from (each for each in _listed(name, value) if is_a(each[1], torch.Tensor))


def modules(space: Space) -> list[tuple[str, torch.nn.Module]]:
    """(name, module) for the variables that are modules, then for those in plain lists, tuples and dicts."""
    found = variables(space)
    return [*_modules_among(found), *chain.from_iterable(_modules_among(_listed(*each)) for each in found)]


def _modules_among(found: Iterable[tuple[str, Any]]) -> list[tuple[str, torch.nn.Module]]:
    return [(name, value) for name, value in found if is_a(value, torch.nn.Module)]


def module_tensors(name: str, module: torch.nn.Module) -> Named:
    """(name, tensor) for a module's parameters and buffers: `model.layers.0.weight`. Asks nothing of the user's."""
    return _tensors_of(parts_of(name, module))


def parts_of(name: str, module: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """(path, module) for a module and all inside it, each once; last those of its plain lists, not registered there.

    >>> net = torch.nn.Sequential(torch.nn.ReLU())
    >>> net.blocks = [torch.nn.Sequential(torch.nn.Tanh())]
    >>> [path for path, _ in parts_of("net", net)]
    ['net', 'net.0', 'net.blocks[0]', 'net.blocks[0].0']
    """
    seen: set[torch.nn.Module] = set()
    found = list(torch.nn.Module.named_modules(module, memo=seen, prefix=name))
    for path, part in found:  # which grows
        for attribute, value in visible(_held(part)):
            for item, each in _modules_among(_listed(f"{path}.{attribute}", value)):
                found += torch.nn.Module.named_modules(each, memo=seen, prefix=item)
    return found


def in_buffers(frame: FrameType | None) -> Iterator[torch.Tensor]:
    """The results with a graph that are buffers of the modules which functions under way hold, the innermost first."""
    while frame is not None:
        held = (each for name, module in modules(frame) for _, each in module_tensors(name, module))
        yield from (each for each in held if each.grad_fn is not None)
        frame = frame.f_back


def _tensors_of(parts: Sequence[tuple[str, torch.nn.Module]]) -> Named:
    """What these modules hold themselves: the parameters of all of them, each once, then the buffers."""
    for kind in ("_parameters", "_buffers"):
        told: set[int] = set()
        for path, part in parts:
            for name, tensor in getattr(part, kind).items():
                if tensor is not None and id(tensor) not in told:
                    told.add(id(tensor))
                    yield f"{path}.{name}", tensor


def attributes(space: dict[str, Any]) -> dict[str, Any]:
    """What the objects among the variables hold: `trainer.critic`, `net.1.state`. Asks nothing of the user's.

    >>> from types import SimpleNamespace
    >>> attributes({"agent": SimpleNamespace(tau=0.01, _hidden=1), "rate": 0.1})
    {'agent.tau': 0.01}
    >>> class Run:
    ...     __slots__ = ("rate", "unset")
    >>> run = Run()
    >>> run.rate = 3
    >>> attributes({"run": run})
    {'run.rate': 3}
    """
    found: dict[str, Any] = {}
    for name, value in space.items():
        parts = torch.nn.Module.named_modules(value, prefix=name) if is_a(value, torch.nn.Module) else [(name, value)]
        for path, part in parts if _is_object(value) else ():
            found.update((f"{path}.{attribute}", held) for attribute, held in visible(_held(part)))
    return found


class Reach:
    """What functions under way hold at one moment, read once for all who look then. Not kept: it holds the values."""

    def __init__(self, frames: Sequence[FrameType]) -> None:
        self.frames = frames
        self._found: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}

    def of(self, frame: FrameType) -> list[tuple[str, Any]]:
        """(name, value) for its variables, then for what objects among them hold."""
        held, inside = self._read(frame)
        return [*held.items(), *inside.items()]

    def together(self) -> list[tuple[str, Any]]:
        """The same of all: of two variables of one name the inner one."""
        if len(self.frames) == 1:
            return self.of(self.frames[0])
        held: dict[str, Any] = {}
        for frame in self.frames:
            held |= self._read(frame)[0]
        return [*held.items(), *attributes(held).items()]

    def _read(self, frame: FrameType) -> tuple[dict[str, Any], dict[str, Any]]:
        known = self._found.get(id(frame))
        if known is None:
            held = dict(variables(frame))
            known = self._found[id(frame)] = held, attributes(held)
        return known


def _is_object(value: Any) -> bool:
    """True for an object with attributes of its own: neither a tensor, a class, a function nor a Python module."""
    return not is_a(value, torch.Tensor | type | ModuleType | FunctionType)


def _held(value: Any) -> dict[str, Any]:
    """What an object holds in its slots, and in its `__dict__`."""
    found = {}
    for place in [each for kind in type(value).__mro__ if "__slots__" in vars(kind) for each in vars(kind).values()]:
        if type(place) is MemberDescriptorType:
            with contextlib.suppress(AttributeError):  # nothing is in it
                found[place.__name__] = place.__get__(value)
    with contextlib.suppress(AttributeError):
        held = object.__getattribute__(value, "__dict__")
        found.update(held if type(held) is dict else {})
    return found


def variables(space: Space) -> list[tuple[str, Any]]:
    """(name, value) for the variables of a frame or of a dict.

    Names with a leading underscore come from IPython's history or mean "not for you": they're left out.
    """
    return visible(space) if isinstance(space, dict) else variables_of(space)


def variables_of(
    frame: FrameType, pick: Callable[[Mapping[str, Any]], list[Any]] | None = None
) -> list[tuple[str, Any]]:
    """The frame's variables, or those that `pick` takes. Reading them leaves nothing that would keep their values.

    Before Python 3.13 a function's `f_locals` is a copy that the frame keeps: it's emptied again, unless the
    user's code holds it too. A function that calls `locals()` is not read: it would see that copy change.
    """
    code = frame.f_code
    is_copy = COPIES and code.co_flags & inspect.CO_OPTIMIZED
    if is_copy and "locals" in code.co_names and asks_locals(code):
        return []
    space = frame.f_locals
    found = visible(space) if pick is None else pick(space)
    if is_copy and sys.getrefcount(space) <= OWN_REFERENCES:
        space.clear()
    return found


@lru_cache(maxsize=256)
def asks_locals(code: CodeType) -> bool:
    """True for code that speaks of the builtin `locals`.

    >>> asks_locals((lambda: locals()).__code__), asks_locals((lambda x: x.locals()).__code__)
    (True, False)
    """
    names = {"LOAD_GLOBAL", "LOAD_NAME"}
    return any(each.opname in names and each.argval == "locals" for each in dis.get_instructions(code))


def visible(space: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The variables whose names don't start with an underscore."""
    return [each for each in list(space.items()) if each[0][:1] != "_"]


def is_a(value: Any, kind: type | UnionType) -> bool:
    """`isinstance` that asks the type alone: a proxy's `__class__` is user code and may do anything."""
    return issubclass(type(value), kind)


def _listed(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(name, item) for what a list, a tuple or a dict holds that isn't too long."""
    if type(value) in (list, tuple) and len(value) <= MAX_ITEMS:
        yield from ((f"{name}[{i}]", item) for i, item in enumerate(value))
    elif type(value) is dict and len(value) <= MAX_ITEMS:
        yield from ((f"{name}[{key!r}]", item) for key, item in value.items() if type(key) is str)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """All tensors in nested lists, tuples and dicts, in order."""
    kind = type(value)
    if kind is torch.Tensor:
        return [value]
    if kind in SCALARS:
        return []
    found: list[torch.Tensor] = []
    if kind is tuple:
        for each in value:
            kind = type(each)
            if kind is torch.Tensor or kind is torch.nn.Parameter:
                found.append(each)
            elif kind not in SCALARS:
                found += _tensors_within(each)
        return found
    return _tensors_within(value)


def _tensors_within(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if kind in SCALARS:
            continue
        if issubclass(kind, torch.Tensor):
            found.append(each)
        elif issubclass(kind, list | tuple):
            waiting.extend(reversed(each))
        elif issubclass(kind, dict):
            waiting.extend(reversed(list(each.values())))
    return found


# -- when to look


class VariableNames:
    """Reads the user's variables, the outermost frame's first: whoever names tensors keeps the first name of each.

    A variable is bound when its statement ends. So the plain variables are read at an event whose position has moved
    on since the last one; lists, dicts and modules only where that can matter: before a backward, for a tensor that
    nobody knows, and at the end.
    """

    def __init__(self) -> None:
        self._positions: list[Position] = []
        self._walked: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._paths: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}

    def start(self, frames: Sequence[FrameType]) -> Named:
        """What exists before the block runs."""
        for space in map(_whole, frames):
            yield from held_tensors(space)
            yield from self._in_modules(space)

    def event(self, frames: Sequence[FrameType], *, direct: bool) -> Iterable[tuple[str, torch.Tensor]]:
        """The plain variables that may have changed, now that a call of torch begins.

        `direct`: the innermost frame makes it, not a function of torch's.
        """
        now = [(id(frame), frame.f_lasti) for frame in frames]
        before, self._positions = self._positions, now
        if now == before and not direct:
            return ()
        moved = frames[-1:] if _moved_on(before, now) else frames
        return chain.from_iterable(map(plain_tensors, moved))

    def everything(self, spaces: Sequence[Space]) -> tuple[Named, Named]:
        """The variables with what lists and dicts hold; then what modules hold that are new."""
        found = list(map(_whole, spaces))
        return self._read([*found, *(attributes({"self": held["self"]}) for held in found if _is_plain(held))])

    def afresh(self, spaces: Sequence[Space]) -> tuple[Named, Named]:
        """All that `everything` reads, modules that aren't new, too, and what the user's objects hold."""
        self._walked.clear()
        found = [dict(variables(space)) for space in spaces]
        return self._read([*found, *map(attributes, found)])

    def _read(self, found: Sequence[dict[str, Any]]) -> tuple[Named, Named]:
        held, inside = map(held_tensors, found), map(self._in_modules, found)
        return chain.from_iterable(held), chain.from_iterable(inside)

    def _in_modules(self, space: Space) -> Named:
        for name, module in modules(space):
            known = self._walked.get(id(module))
            if known is None or known() is not module:
                self._walked[id(module)] = weakref.ref(module)
                yield from _tensors_of(self._learn_paths(name, module))

    # -- modules

    def module(self, call: FrameType | None, block: FrameType | None) -> str:
        """Path of the module that is called there: `model.layers.0.linear1`; `DataLoader`; empty for no call."""
        if call is not None and call.f_code.co_filename == LOADING:
            return LOADER
        return "" if call is None else self._path(call, block)

    def met(self) -> list[tuple[str, torch.nn.Module]]:
        """(path, module) for those met so far that live."""
        return [(path, module) for ref, path in self._paths.values() if (module := ref()) is not None]

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

    def _learn_paths(self, name: str, module: Any) -> list[tuple[str, torch.nn.Module]]:
        """(path, module) for a module and all inside it."""
        if not is_a(module, torch.nn.Module):
            return []
        parts = parts_of(name or type(module).__name__, module)
        for path, each in parts:
            known = self._paths.get(id(each))
            if known is None or known[0]() is not each:
                self._paths[id(each)] = (weakref.ref(each), path)
        return parts


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
