"""JSON values back into the frozen data that they were."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any


def as_kind(kind: Any, value: Any) -> Any:
    """JSON value → the dataclass, tuple or scalar that `kind` asks for.

    Raises TypeError, ValueError or KeyError for a value that can't be one.

    >>> as_kind(tuple[int, ...], [1, 2])
    (1, 2)
    """
    if dataclasses.is_dataclass(kind):
        return _as_dataclass(kind, value)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return as_kind(_chosen(arguments, value), value)
    if origin is not tuple:
        return value
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(as_kind(arguments[0], item) for item in value)
    return tuple(as_kind(each, item) for each, item in zip(arguments, value, strict=True))


def _as_dataclass(kind: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object for {getattr(kind, '__name__', kind)}")
    hints = typing.get_type_hints(kind)
    return kind(**{name: as_kind(hints[name], item) for name, item in value.items()})


def _chosen(kinds: tuple[Any, ...], value: Any) -> Any:
    """Of a union, the kind that fits: None is itself, an object a dataclass, of several scalars each is right."""
    rest = [kind for kind in kinds if kind is not type(None)]
    objects = [kind for kind in rest if dataclasses.is_dataclass(kind)]
    if value is None and len(rest) < len(kinds):
        return object
    if len(rest) == 1:
        return rest[0]
    return objects[0] if objects and isinstance(value, dict) else object
