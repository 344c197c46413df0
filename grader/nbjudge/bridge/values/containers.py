"""Tuples, frozen sets, named tuples; lists, dicts and sets, which both sides may change in place."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

from nbjudge.bridge.values.shared import InPlace, share
from nbjudge.bridge.values.table import Decoder, Encoder, Tree, ValueKind, key, known, pairs
from nbjudge.errors import WireError
from nbjudge.wire import listed, text

FIELDS = 64
STUDENT = "student"  # the module that classes of the other process say they come from
_OF_EVERY_NAMED_TUPLE = frozenset({*vars(collections.namedtuple("_Any", ())), "__annotations__", "__orig_bases__"})


def _items(value: Any, encode: Encoder) -> list[Any]:
    return [encode(item) for item in value]


def _pairs(value: Any, encode: Encoder) -> list[Any]:
    return [[encode(name), encode(item)] for name, item in value.items()]


def _sequence(name: str, types: tuple[type, ...], make: Callable[[list[Any]], Any]) -> ValueKind:
    return ValueKind(
        name,
        types,
        lambda value, encode: {"t": name, "v": _items(value, encode)},
        lambda tree, decode: make([decode(item) for item in listed(tree, "v")]),
    )


def _fill_list(value: list[Any], tree: Tree, decode: Decoder) -> Any:
    value[:] = [decode(item) for item in listed(tree, "v")]
    return value


def _fill_set(value: set[Any], tree: Tree, decode: Decoder) -> Any:
    new = [key(decode(item)) for item in listed(tree, "v")]
    value.clear()
    value.update(new)
    return value


def _fill_dict(value: dict[Any, Any], tree: Tree, decode: Decoder) -> Any:
    new = pairs(tree, decode)
    value.clear()
    value.update(new)
    return value


def _held(value: dict[Any, Any]) -> tuple[Any, ...]:
    return *value.keys(), *value.values()


def fields(kind: type) -> list[str]:
    """The names of a named tuple's items, or of a structure that torch returns; nothing for any other class."""
    if kind is tuple or not issubclass(kind, tuple):
        return []
    if kind.__module__ == "torch.return_types":
        return [str(name) for name in getattr(kind, "__match_args__", ())]
    found = getattr(kind, "_fields", ())
    own = set(vars(kind)) <= _OF_EVERY_NAMED_TUPLE | set(found)
    return [str(name) for name in found] if own and isinstance(found, tuple) else []


def _named(value: Any, encode: Encoder) -> Any:
    kind = type(value)
    return {"t": "named", "name": kind.__name__, "fields": fields(kind), "v": _items(value, encode)}


def _named_heard(tree: Tree, decode: Decoder) -> Any:
    items = [decode(item) for item in listed(tree, "v", FIELDS)]
    names = tuple(map(str, listed(tree, "fields", FIELDS)))
    try:
        return _class(text(tree, "name"), names)(*items[: len(names)])
    except TypeError:
        raise WireError("A named tuple lacks an item.") from None


@functools.lru_cache(maxsize=256)
def _class(name: str, names: tuple[str, ...]) -> Callable[..., Any]:
    try:
        made = collections.namedtuple(name, names)  # type: ignore[misc]  # the fields are known when it runs
    except (ValueError, TypeError):
        raise WireError("A named tuple has impossible names.") from None
    made.__module__ = STUDENT
    return made


known(_sequence("tuple", (tuple,), tuple))
known(_sequence("frozenset", (frozenset,), lambda items: frozenset(map(key, items))))
known(ValueKind("named", (), _named, _named_heard, takes=lambda value: bool(fields(type(value)))))
share("list", (list,), InPlace(_items, _fill_list, tuple, list))
share("dict", (dict,), InPlace(_pairs, _fill_dict, _held, dict))
share("set", (set,), InPlace(_items, _fill_set, tuple, set))
