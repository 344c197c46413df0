"""What the standard library adds to lists and dicts, which both sides may change in place, and views of dicts."""

from __future__ import annotations

import collections
import sys
import types
from collections.abc import Callable
from typing import Any

from nbjudge.bridge.values.shared import InPlace, share
from nbjudge.bridge.values.table import Decoder, Encoder, Tree, ValueKind, key, known, pairs
from nbjudge.errors import WireError
from nbjudge.wire import listed

FACTORY = "default_factory"


def _ordered(value: Any) -> list[tuple[Any, Any]]:
    """By its own order, which `move_to_end` changes, and by Python's own methods."""
    return [(name, dict.__getitem__(value, name)) for name in collections.OrderedDict.__iter__(value)]


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    return list(dict.items(value))


def _mapping(kind: Any, items: Callable[[Any], list[tuple[Any, Any]]]) -> InPlace:
    """A dict of the standard library's."""

    def contents(value: Any, encode: Encoder) -> list[Any]:
        return [[encode(name), encode(item)] for name, item in items(value)]

    def fill(value: Any, tree: Tree, decode: Decoder) -> Any:
        new = pairs(tree, decode)
        kind.clear(value)
        for name, item in new:
            kind.__setitem__(value, name, item)
        return value

    return InPlace(contents, fill, lambda value: tuple(part for pair in items(value) for part in pair), kind)


def _with_default(value: Any, encode: Encoder) -> list[Any]:
    return [[encode(name), encode(item)] for name, item in (*_pairs(value), (FACTORY, value.default_factory))]


def _fill_default(value: Any, tree: Tree, decode: Decoder) -> Any:
    """Its factory, which stands behind the items, is a class or a function; anything else gives no defaults."""
    *new, (_, factory) = pairs(tree, decode) or [(FACTORY, None)]  # none says nothing of one
    collections.defaultdict.clear(value)
    value.default_factory = factory if callable(factory) else None
    for name, item in new:
        collections.defaultdict.__setitem__(value, name, item)
    return value


def _queue(value: Any, encode: Encoder) -> list[Any]:
    return [value.maxlen, *(encode(item) for item in collections.deque.__iter__(value))]


def _fill_queue(value: Any, tree: Tree, decode: Decoder) -> Any:
    """Its bound comes first, and stays."""
    most, *items = listed(tree, "v") or [-1]
    if most is not None and (type(most) is not int or not len(items) <= most < sys.maxsize):
        raise WireError("A deque is longer than its own bound.")
    made: Any = collections.deque(maxlen=most) if value is None else value
    if made.maxlen != most:
        raise WireError("A deque has another bound.")
    new = [decode(item) for item in items]
    collections.deque.clear(made)
    collections.deque.extend(made, new)
    return made


def _as(kind: type) -> Any:
    """What a wrapper holds crosses as the container that it wraps."""
    return lambda value, encode: encode(kind(value))


def _view(name: str) -> Any:
    return lambda value, encode: {"t": name, "v": [encode(item) for item in value]}


def _keys(tree: Tree, decode: Decoder) -> Any:
    return dict.fromkeys(key(decode(item)) for item in listed(tree, "v")).keys()


def _values(tree: Tree, decode: Decoder) -> Any:
    return dict(enumerate(decode(item) for item in listed(tree, "v"))).values()


def _pairs_viewed(tree: Tree, decode: Decoder) -> Any:
    found = [decode(item) for item in listed(tree, "v")]
    if any(type(pair) is not tuple or len(pair) != 2 for pair in found):
        raise WireError("A dict's items aren't pairs.")
    return {key(name): item for name, item in found}.items()


def _never(_tree: Tree, _decode: Decoder) -> Any:
    raise WireError("It crosses as the container that it wraps.")


_EMPTY: dict[Any, Any] = {}
for _kind in (
    ValueKind("keys", (type(_EMPTY.keys()), type(collections.OrderedDict().keys())), _view("keys"), _keys),
    ValueKind("values", (type(_EMPTY.values()), type(collections.OrderedDict().values())), _view("values"), _values),
    ValueKind("items", (type(_EMPTY.items()), type(collections.OrderedDict().items())), _view("items"), _pairs_viewed),
    ValueKind(
        "UserList", (collections.UserList,), lambda value, encode: encode(value.data), _never, None, subclasses=True
    ),
    ValueKind(
        "UserDict", (collections.UserDict,), lambda value, encode: encode(value.data), _never, None, subclasses=True
    ),
    ValueKind(
        "UserString",
        (collections.UserString,),
        lambda value, encode: encode(str(value.data)),
        _never,
        None,
        subclasses=True,
    ),
    ValueKind("ChainMap", (collections.ChainMap,), _as(dict), _never, None, subclasses=True),
    ValueKind("mappingproxy", (types.MappingProxyType,), _as(dict), _never),
):
    known(_kind)
share("Counter", (collections.Counter,), _mapping(collections.Counter, _pairs))
share("OrderedDict", (collections.OrderedDict,), _mapping(collections.OrderedDict, _ordered))
share(
    "defaultdict",
    (collections.defaultdict,),
    InPlace(
        _with_default, _fill_default, lambda value: (*dict.keys(value), *dict.values(value)), collections.defaultdict
    ),
)
share("deque", (collections.deque,), InPlace(_queue, _fill_queue, tuple))
