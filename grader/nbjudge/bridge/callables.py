"""Functions that cross by number: which callables are functions, and how one looks that lives over there."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from typing import Any

from nbjudge.bridge.values import is_value
from nbjudge.errors import WireError
from nbjudge.wire import listed, text

PARAMETERS = 64
DOC_CHARS = 2000


def bound_to(value: Any) -> Any:
    """The object that a bound method belongs to, where it is reached there by its name again."""
    if not isinstance(value, types.MethodType | types.BuiltinMethodType | types.MethodWrapperType):
        return None
    of = value.__self__
    if of is None or isinstance(of, types.ModuleType | tuple | frozenset) or is_value(of):
        return None
    return None if getattr(of, value.__name__, None) != value else of


def is_function(value: Any) -> bool:
    """Something that is called and otherwise has nothing of its own."""
    if isinstance(value, types.FunctionType):
        return not value.__dict__ or set(value.__dict__) <= {"__wrapped__"}
    return isinstance(value, types.BuiltinFunctionType | types.MethodType | types.MethodWrapperType)


def name_of(function: Any) -> str:
    """Its name, bounded."""
    return str(getattr(function, "__name__", "function"))[:200]


def signature(function: Any) -> dict[str, Any]:
    """How a function wants to be called, as `inspect.signature` tells it, and its docstring."""
    said: dict[str, Any] = {}
    if isinstance(doc := getattr(function, "__doc__", None), str):
        said["doc"] = doc[:DOC_CHARS]
    try:
        found = list(inspect.signature(function).parameters.values())[:PARAMETERS]
    except (ValueError, TypeError):
        return said
    plain = (type(None), bool, int, float, str)
    said["parameters"] = [
        [part.name[:200], int(part.kind), _default(part.default) if isinstance(part.default, plain) else None]
        for part in found
    ]
    said["optional"] = [part.name[:200] for part in found if part.default is not part.empty]
    return said


def _default(value: Any) -> Any:
    """A default as JSON says it; a long text, a big number or an infinity isn't told."""
    if isinstance(value, bool) or value is None:
        return value
    return value if isinstance(value, int | float) and abs(value) < 1e15 else value if isinstance(value, str) else None


def describe(function: Any, tree: Mapping[str, Any]) -> None:
    """Give a function here the name, docstring and signature of the one over there."""
    name = text(tree, "name")
    function.__name__ = function.__qualname__ = name if name.isidentifier() else "function"
    if "doc" in tree:
        function.__doc__ = text(tree, "doc", DOC_CHARS)
    if "parameters" in tree:
        optional = listed(tree, "optional", PARAMETERS)
        try:
            parts = [_parameter(part, optional) for part in listed(tree, "parameters", PARAMETERS)]
            function.__signature__ = inspect.Signature(parts)
        except (ValueError, TypeError):
            raise WireError("A function has an impossible signature.") from None


def _parameter(part: Any, optional: list[Any]) -> inspect.Parameter:
    name, kind, default = part
    given = default if name in optional else inspect.Parameter.empty
    return inspect.Parameter(name, inspect._ParameterKind(kind), default=given)
