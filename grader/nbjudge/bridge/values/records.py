"""Data classes and enumerations: their fields and members, in a class of the same look made here.

What makes them equal, prints or orders them is Python's own code on this side; methods of their own stay over there. A
data class that has some is an object first, and this only where nothing else may stand.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import Any

from nbjudge.bridge.values.containers import FIELDS, STUDENT
from nbjudge.bridge.values.given import given, remember
from nbjudge.bridge.values.standard.instances import is_instance
from nbjudge.bridge.values.table import Decoder, Encoder, Tree, UnsupportedError, ValueKind, known
from nbjudge.errors import WireError
from nbjudge.wire import listed, text

_OF_EVERY_CLASS = frozenset({*vars(type("_Any", (), {})), "__slots__", "__annotations__", "__annotate_func__"})
_GENERATED = frozenset(
    {
        *("__init__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__", "__match_args__"),
        *("__replace__", "__setattr__", "__delattr__", "__getstate__", "__setstate__", "__post_init__"),
        *("__dataclass_fields__", "__dataclass_params__", "__static_attributes__", "__firstlineno__"),
        *("__annotations_cache__", "__type_params__", "__orig_bases__", "__parameters__", "__abstractmethods__"),
    }
)
_OPTIONS = ("eq", "order", "frozen")


def is_record(kind: type) -> bool:
    """Is it a data class that has nothing but what `dataclass` gives it?"""
    bases = [base for base in kind.__mro__ if base is not object]
    if not any("__dataclass_fields__" in vars(base) for base in bases):
        return False
    names = {field.name for field in dataclasses.fields(kind)}
    allowed = _OF_EVERY_CLASS | _GENERATED | names
    return all(set(vars(base)) <= allowed and not _written(base) for base in bases)


def _written(kind: type) -> bool:
    """Has a generated method been written by hand? `dataclass` makes its own without a file."""
    methods = [vars(kind).get(name) for name in ("__init__", "__repr__", "__eq__", "__hash__", "__lt__")]
    codes = [getattr(getattr(method, "__wrapped__", method), "__code__", None) for method in methods]
    return any(code is not None and code.co_filename != "<string>" for code in codes)


def fields_in(value: Any) -> list[tuple[str, Any]]:
    """What a data class that is data holds, by name; nothing of anything else."""
    if not is_record(type(value)):
        return []
    names = [field.name for field in dataclasses.fields(value)]
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]


def _said(value: Any, encode: Encoder) -> Any:
    kind = type(value)
    names = [field.name for field in dataclasses.fields(kind) if hasattr(value, field.name)][:FIELDS]
    options = _options(kind)
    remember((kind.__name__[:80], tuple(names), options), kind)
    items = [encode(getattr(value, name)) for name in names]
    return {"t": "record", "name": kind.__name__[:80], "fields": names, "options": list(options), "v": items}


def _options(kind: type) -> tuple[bool, ...]:
    chosen = getattr(kind, "__dataclass_params__", None)
    return tuple(bool(getattr(chosen, name, False)) for name in _OPTIONS)


def _look(kind: type) -> Any:
    """How a class's objects look over there, where they have all their fields; None where they aren't data."""
    if not is_record(kind):
        return None
    return kind.__name__[:80], tuple(field.name for field in dataclasses.fields(kind)), _options(kind)


def _heard(tree: Tree, decode: Decoder) -> Any:
    names = tuple(map(str, listed(tree, "fields", FIELDS)))
    if any(name.startswith("__") for name in names):  # `__class__`, which would make it something else
        raise WireError("A data class has impossible fields.")
    items = [decode(item) for item in listed(tree, "v", FIELDS)]
    options = tuple(bool(option) for option in listed(tree, "options", len(_OPTIONS)))
    look = (text(tree, "name"), names, options)
    try:
        made: Any = object.__new__(given(look, _look) or _class(*look))
    except (TypeError, ValueError):
        raise WireError("A data class has impossible fields.") from None
    for name, item in zip(names, items, strict=False):
        object.__setattr__(made, name, item)
    return made


@functools.lru_cache(maxsize=256)
def _class(name: str, names: tuple[str, ...], options: tuple[bool, ...]) -> type:
    chosen: Any = dict(zip(_OPTIONS, options, strict=False))
    named = name if name.isidentifier() else "Record"
    return dataclasses.make_dataclass(named, names, namespace={"__module__": STUDENT}, **chosen)


def _looks(value: Any) -> tuple[Any, ...]:
    return tuple(vars(value).values()) if hasattr(value, "__dict__") else ()


def _is_member(value: Any) -> bool:
    """A member of an enumeration that isn't a number or a text as well: those cross as what they are."""
    kind = type(value)
    return issubclass(kind, enum.Enum) and not issubclass(kind, int | str | float | bytes | tuple)


def _member(value: Any, encode: Encoder) -> Any:
    members = list(type(value).__members__.items())
    if len(members) > FIELDS or not value.name:
        raise UnsupportedError(f"a member of {type(value).__name__[:80]}, an enumeration of more than {FIELDS}")
    plain = _plainly(type(value))
    name = type(value).__name__[:80]
    remember((name, _typed(plain)), type(value))
    return {"t": "member", "name": name, "v": [[each, encode(item)] for each, item in plain], "is": value.name}


def _plainly(kind: Any) -> list[tuple[str, Any]]:
    return [(name, _plain(member.value)) for name, member in kind.__members__.items()]


def _members(kind: Any) -> Any:
    """How an enumeration looks over there; None for any other class."""
    return (kind.__name__[:80], _typed(_plainly(kind))) if issubclass(kind, enum.Enum) else None


def _typed(members: list[tuple[str, Any]]) -> tuple[Any, ...]:
    """For a table of looks: 1, 1.0 and True aren't one."""
    return tuple((name, value, type(value)) for name, value in members)


def _plain(value: Any) -> Any:
    return value if value is None or type(value) in (bool, int, float, str) else repr(value)[:200]


def _member_heard(tree: Tree, decode: Decoder) -> Any:
    pairs = [tuple(pair) for pair in listed(tree, "v", FIELDS) if type(pair) is list and len(pair) == 2]
    members = [(name, decode(value)) for name, value in pairs if type(name) is str]
    if any(value is not None and type(value) not in (bool, int, float, str) for _, value in members):
        raise WireError("A member of an enumeration has an odd value.")
    try:
        look = (text(tree, "name"), _typed(members))
        made: Any = given(look, _members) or _enumeration(*look)
        return made[text(tree, "is")]
    except (KeyError, TypeError, ValueError):
        raise WireError("An enumeration has no such member.") from None


@functools.lru_cache(maxsize=256)
def _enumeration(name: str, members: tuple[Any, ...]) -> Any:
    return enum.Enum(name, [(member, value) for member, value, _ in members], module=STUDENT)


def _is_only_a_record(value: Any) -> bool:
    """One of the course's own modules has this very class on both sides."""
    return is_record(type(value)) and not is_instance(value)


RECORD = ValueKind("record", (), _said, _heard, _is_only_a_record, snapshot=_looks)
known(RECORD)
known(ValueKind("member", (), _member, _member_heard, _is_member))
