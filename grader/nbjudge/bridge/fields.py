"""What a data class says of its fields, as far as it is plain: names, classes, defaults."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Sequence
from typing import Any

from nbjudge.errors import WireError

FIELDS = "__dataclass_fields__"
PARAMETERS = 64


def is_plain_class(kind: Any) -> bool:
    """Is it a class of Python's own, or None, which stands for one?"""
    return kind is None or _is_builtin(kind)


def _is_builtin(kind: Any) -> bool:
    return isinstance(kind, type) and vars(builtins).get(kind.__name__) is kind


def plain_default(value: Any) -> Any:
    """A default as JSON says it; a long text, a big number or an infinity isn't told."""
    if isinstance(value, bool) or value is None:
        return value
    return value if isinstance(value, int | float) and abs(value) < 1e15 else value if isinstance(value, str) else None


def fields_of(kind: type) -> list[list[Any]] | None:
    """What a data class says of its fields: their names, classes and defaults, where these are plain; None of others.

    >>> fields_of(dataclasses.make_dataclass("Point", [("x", int), ("y", int, 0)]))
    [['x', 'int', False, None], ['y', 'int', True, 0]]
    """
    found = vars(kind).get(FIELDS)
    if type(found) is not dict or not all(type(one) is dataclasses.Field for one in found.values()):
        return None
    every = [one for one in dataclasses.fields(kind) if type(one.name) is str][:PARAMETERS]
    return [[one.name[:200], _said_of(one.type), *_said_default(one)] for one in every]


def _said_of(annotation: Any) -> str:
    return annotation[:200] if type(annotation) is str else annotation.__name__ if _is_builtin(annotation) else ""


def _said_default(one: Any) -> list[Any]:
    has = one.default is not dataclasses.MISSING or one.default_factory is not dataclasses.MISSING
    return [has, plain_default(one.default) if type(one.default) in (bool, int, float, str) else None]


def made_fields(told: Sequence[Any]) -> Any:
    """As `dataclasses.fields` finds them here."""
    made = []
    for one in told:
        if type(one) is not list or [type(part) for part in one[:3]] != [str, str, bool] or len(one) != 4:
            raise WireError("A data class says nothing of its fields.")
        name, annotation, has, default = one
        if not isinstance(default, bool | int | float | str | None):
            raise WireError("A field's default isn't plain.")
        kind = vars(builtins).get(annotation)
        kind = kind if _is_builtin(kind) else annotation or Any
        made.append((name, kind, dataclasses.field(default=default) if has else dataclasses.field()))
    try:
        return vars(dataclasses.make_dataclass("Fields", made, kw_only=True))[FIELDS]
    except (TypeError, ValueError):
        raise WireError("A data class has impossible fields.") from None
