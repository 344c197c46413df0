"""What the standard library adds to lists and dicts, and views of dicts: they cross as copies."""

from __future__ import annotations

import collections
import types
from typing import Any

from nbjudge.bridge.values.table import Decoder, Encoder, Tree, ValueKind, key, known, pairs
from nbjudge.errors import WireError
from nbjudge.wire import listed, whole


def _named(name: str) -> Any:
    def said(value: Any, encode: Encoder) -> Any:
        return {"t": name, "v": [[encode(at), encode(item)] for at, item in dict.items(value)]}

    return said


def _counter(tree: Tree, decode: Decoder) -> Any:
    return collections.Counter(dict(pairs(tree, decode)))


def _ordered(tree: Tree, decode: Decoder) -> Any:
    return collections.OrderedDict(pairs(tree, decode))


def _with_default(value: Any, encode: Encoder) -> Any:
    return {**_named("defaultdict")(value, encode), "factory": encode(value.default_factory)}


def _with_default_heard(tree: Tree, decode: Decoder) -> Any:
    """Its factory is a class or a function, which cross by name or by number; anything else gives no defaults."""
    factory = decode(tree.get("factory"))
    return collections.defaultdict(factory if callable(factory) else None, pairs(tree, decode))


def _queue(value: Any, encode: Encoder) -> Any:
    return {"t": "deque", "v": [encode(item) for item in collections.deque.__iter__(value)], "most": value.maxlen}


def _queue_heard(tree: Tree, decode: Decoder) -> Any:
    most = None if tree.get("most") is None else whole(tree, "most")
    items = [decode(item) for item in listed(tree, "v")]
    if most is not None and len(items) > most:
        raise WireError("A deque is longer than its own bound.")
    return collections.deque(items, most)


def _held(value: Any) -> Any:
    return *dict.keys(value), *dict.values(value)


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
    ValueKind("Counter", (collections.Counter,), _named("Counter"), _counter, None, subclasses=True, snapshot=_held),
    ValueKind(
        "OrderedDict",
        (collections.OrderedDict,),
        _named("OrderedDict"),
        _ordered,
        None,
        subclasses=True,
        snapshot=_held,
    ),
    ValueKind(
        "defaultdict",
        (collections.defaultdict,),
        _with_default,
        _with_default_heard,
        None,
        subclasses=True,
        snapshot=_held,
    ),
    ValueKind("deque", (collections.deque,), _queue, _queue_heard, None, subclasses=True, snapshot=tuple),
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
