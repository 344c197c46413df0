"""Which variable of the user holds which tensor."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType, FrameType, FunctionType, ModuleType, UnionType
from typing import Any

import torch

OWN_REFERENCES = 3
"""References to a frame's copy of its variables that are the frame's, ours, and the question's own."""

MAX_ITEMS = 64
"""Longest list or dict of the user that is searched for tensors."""

# fmt: off
SCALARS = frozenset({int, float, bool, str, type(None), complex, slice, torch.dtype, torch.device, torch.Size})
# fmt: on
"""Types of arguments that hold no tensor: most arguments are one of these."""

Named = Iterator[tuple[str, torch.Tensor]]


def plain_tensors(frame: FrameType) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor) for the variables that are tensors. Of a module's variables, those that its code speaks of."""
    space: FrameType | dict[str, Any] = spoken_of(frame) if frame.f_code.co_name == "<module>" else frame
    return [(name, value) for name, value in variables(space) if issubclass(type(value), torch.Tensor)]


def spoken_of(frame: FrameType) -> dict[str, Any]:
    """The module's variables of which the frame's code speaks."""
    return {name: frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals}


def held_tensors(space: FrameType | dict[str, Any]) -> Named:
    """(name, tensor) for the variables that are tensors, then for the items of lists, tuples and dicts."""
    found = variables(space)
    yield from ((name, value) for name, value in found if is_a(value, torch.Tensor))
    for name, value in found:
        yield from _items(name, value)


def modules(space: FrameType | dict[str, Any]) -> list[tuple[str, torch.nn.Module]]:
    """(name, module) for the variables that are modules."""
    return [(name, value) for name, value in variables(space) if is_a(value, torch.nn.Module)]


def module_tensors(name: str, module: torch.nn.Module) -> Named:
    """(name, tensor) for a module's parameters and buffers: `model.layers.0.weight`. Asks nothing of the user's."""
    yield from ((f"{name}.{inner}", tensor) for inner, tensor in torch.nn.Module.named_parameters(module))
    yield from ((f"{name}.{inner}", tensor) for inner, tensor in torch.nn.Module.named_buffers(module))


def attributes(space: dict[str, Any]) -> dict[str, Any]:
    """What the objects among the variables hold: `trainer.critic`, `net.1.state`. Asks nothing of the user's.

    >>> from types import SimpleNamespace
    >>> attributes({"agent": SimpleNamespace(tau=0.01, _hidden=1), "rate": 0.1})
    {'agent.tau': 0.01}
    """
    found: dict[str, Any] = {}
    for name, value in space.items():
        parts = torch.nn.Module.named_modules(value, prefix=name) if is_a(value, torch.nn.Module) else [(name, value)]
        for path, part in parts if _is_object(value) else ():
            found.update((f"{path}.{attribute}", held) for attribute, held in visible(_held(part)))
    return found


def _is_object(value: Any) -> bool:
    """True for an object with attributes of its own: neither a tensor, a class, a function nor a Python module."""
    return not is_a(value, torch.Tensor | type | ModuleType | FunctionType)


def _held(value: Any) -> dict[str, Any]:
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if type(held) is dict else {}


def variables(space: FrameType | dict[str, Any]) -> list[tuple[str, Any]]:
    """(name, value) for the variables of a frame or of a dict.

    Names with a leading underscore come from IPython's history or mean "not for you": they're left out.
    """
    return visible(space) if isinstance(space, dict) else variables_of(space)


def variables_of(frame: FrameType) -> list[tuple[str, Any]]:
    """The frame's variables. Reading them leaves nothing behind that would keep their values alive.

    Before Python 3.13 a function's `f_locals` is a copy that the frame keeps: it's emptied again, unless the
    user's code holds it too. A function that calls `locals()` is not read: it would see that copy change.
    """
    is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if sys.version_info < (3, 13) and is_function and "locals" in frame.f_code.co_names and asks_locals(frame.f_code):
        return []
    space = frame.f_locals
    found = visible(space)
    is_copy = sys.version_info < (3, 13) and is_function
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
    return [(name, value) for name, value in list(space.items()) if not name.startswith("_")]


def is_a(value: Any, kind: type | UnionType) -> bool:
    """`isinstance` that asks the type alone: a proxy's `__class__` is user code and may do anything."""
    return issubclass(type(value), kind)


def _items(name: str, value: Any) -> Named:
    if type(value) in (list, tuple) and len(value) <= MAX_ITEMS:
        yield from ((f"{name}[{i}]", item) for i, item in enumerate(value) if is_a(item, torch.Tensor))
    elif type(value) is dict and len(value) <= MAX_ITEMS:
        yield from (
            (f"{name}[{key!r}]", item) for key, item in value.items() if type(key) is str and is_a(item, torch.Tensor)
        )


def tensors_in(value: Any) -> list[torch.Tensor]:
    """All tensors in nested lists, tuples and dicts, in order."""
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
