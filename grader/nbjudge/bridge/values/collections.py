"""What the standard library's `collections` adds to lists and dicts: they cross as copies."""

from __future__ import annotations

import collections
from typing import Any

from nbjudge.bridge.values.table import Decoder, Encoder, Tree, ValueKind, known, pairs
from nbjudge.errors import WireError
from nbjudge.wire import listed, whole


def _items(value: Any, encode: Encoder) -> Any:
    return {"t": type(value).__name__, "v": [[encode(name), encode(item)] for name, item in value.items()]}


def _counter(tree: Tree, decode: Decoder) -> Any:
    return collections.Counter(dict(pairs(tree, decode)))


def _ordered(tree: Tree, decode: Decoder) -> Any:
    return collections.OrderedDict(pairs(tree, decode))


def _with_default(value: Any, encode: Encoder) -> Any:
    return {**_items(value, encode), "factory": encode(value.default_factory)}


def _with_default_heard(tree: Tree, decode: Decoder) -> Any:
    """Its factory is a class or a function, which cross by name or by number; anything else gives no defaults."""
    factory = decode(tree.get("factory"))
    return collections.defaultdict(factory if callable(factory) else None, pairs(tree, decode))


def _queue(value: Any, encode: Encoder) -> Any:
    return {"t": "deque", "v": [encode(item) for item in value], "most": value.maxlen}


def _queue_heard(tree: Tree, decode: Decoder) -> Any:
    most = None if tree.get("most") is None else whole(tree, "most")
    items = [decode(item) for item in listed(tree, "v")]
    if most is not None and len(items) > most:
        raise WireError("A deque is longer than its own bound.")
    return collections.deque(items, most)


def _held(value: Any) -> Any:
    return *value.keys(), *value.values()


for _kind in (
    ValueKind("Counter", (collections.Counter,), _items, _counter, snapshot=_held),
    ValueKind("OrderedDict", (collections.OrderedDict,), _items, _ordered, snapshot=_held),
    ValueKind("defaultdict", (collections.defaultdict,), _with_default, _with_default_heard, snapshot=_held),
    ValueKind("deque", (collections.deque,), _queue, _queue_heard, snapshot=tuple),
):
    known(_kind)
