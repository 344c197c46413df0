"""Tuples, frozen sets, named tuples; lists, dicts and sets, which both sides may change in place."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

from nbjudge.bridge.values.given import given, remember
from nbjudge.bridge.values.shared import InPlace, share
from nbjudge.bridge.values.table import Decoder, Encoder, Tree, ValueKind, key, known, pairs
from nbjudge.errors import WireError
from nbjudge.wire import listed, text

FIELDS = 64
STUDENT = "student"  # the module that classes of the other process say they come from


def _of(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """What a container holds by Python's own methods, whatever its class has in their place."""
    return lambda value: tuple(kind.__iter__(value))


def _said(held: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Encoder], list[Any]]:
    return lambda value, encode: [encode(item) for item in held(value)]


def _pairs(value: Any, encode: Encoder) -> list[Any]:
    return [[encode(name), encode(item)] for name, item in dict.items(value)]


def _sequence(name: str, kind: type, make: Callable[[list[Any]], Any]) -> ValueKind:
    said = _said(_of(kind))
    return ValueKind(
        name,
        (kind,),
        lambda value, encode: {"t": name, "v": said(value, encode)},
        lambda tree, decode: make([decode(item) for item in listed(tree, "v")]),
        subclasses=True,
    )


def _fill_list(value: list[Any], tree: Tree, decode: Decoder) -> Any:
    list.__setitem__(value, slice(None), [decode(item) for item in listed(tree, "v")])
    return value


def _fill_set(value: set[Any], tree: Tree, decode: Decoder) -> Any:
    new = [key(decode(item)) for item in listed(tree, "v")]
    set.clear(value)
    set.update(value, new)
    return value


def _fill_dict(value: dict[Any, Any], tree: Tree, decode: Decoder) -> Any:
    new = pairs(tree, decode)
    dict.clear(value)
    dict.update(value, new)
    return value


def _held(value: dict[Any, Any]) -> tuple[Any, ...]:
    return *dict.keys(value), *dict.values(value)


def fields(kind: type) -> list[str]:
    """The names of a named tuple's items, or of a structure that torch returns; nothing for any other class."""
    if kind is tuple or not issubclass(kind, tuple):
        return []
    if kind.__module__ == "torch.return_types":
        return [str(name) for name in getattr(kind, "__match_args__", ())]
    found = getattr(kind, "_fields", ())
    return [str(name) for name in found] if isinstance(found, tuple) else []


def _is_named(value: Any) -> bool:
    """Has each name its item?"""
    names = fields(type(value))
    return bool(names) and len(names) == tuple.__len__(value)


def _named(value: Any, encode: Encoder) -> Any:
    kind = type(value)
    if (look := _look(kind)) is not None:
        remember(look, kind)
    return {"t": "named", "name": kind.__name__, "fields": fields(kind), "v": _said(_of(tuple))(value, encode)}


def _named_heard(tree: Tree, decode: Decoder) -> Any:
    items = [decode(item) for item in listed(tree, "v", FIELDS)]
    names = tuple(map(str, listed(tree, "fields", FIELDS)))
    if len(items) < len(names):
        raise WireError("A named tuple lacks an item.")
    look = (text(tree, "name"), names)
    return tuple.__new__(given(look, _look) or _class(*look), items[: len(names)])


def _look(kind: type) -> Any:
    """How a class of named tuples looks over there; None of any other, as of torch's own."""
    plain = issubclass(kind, tuple) and type(getattr(kind, "_fields", None)) is tuple
    return (kind.__name__, tuple(fields(kind))) if plain else None


@functools.lru_cache(maxsize=256)
def _class(name: str, names: tuple[str, ...]) -> type[tuple[Any, ...]]:
    try:
        made = collections.namedtuple(name, names)  # type: ignore[misc]  # the fields are known when it runs
    except (ValueError, TypeError):
        raise WireError("A named tuple has impossible names.") from None
    made.__module__ = STUDENT
    return made


known(_sequence("tuple", tuple, tuple))
known(_sequence("frozenset", frozenset, lambda items: frozenset(map(key, items))))
known(ValueKind("named", (), _named, _named_heard, takes=_is_named))
share("list", (list,), InPlace(_said(_of(list)), _fill_list, _of(list), list))
share("dict", (dict,), InPlace(_pairs, _fill_dict, _held, dict))
share("set", (set,), InPlace(_said(_of(set)), _fill_set, _of(set), set))
