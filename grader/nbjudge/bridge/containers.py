"""Lists, dicts, sets, arrays that both sides hold: what one changes in place changes on the other too.

A container has no weak references, so they are shared for the length of one question and then forgotten.
"""

from __future__ import annotations

import collections
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nbjudge.bridge.values import Encode, UnsupportedError, key
from nbjudge.errors import WireError
from nbjudge.wire import listed, text, whole

TRACKED = 1 << 14  # beyond these a container travels once, by value
OWN_REFERENCES = 3  # this table's, a loop's variable's, and the question's itself
KINDS: Mapping[type, str] = {
    list: "list",
    dict: "dict",
    set: "set",
    bytearray: "bytearray",
    collections.OrderedDict: "OrderedDict",
    collections.Counter: "Counter",
    collections.defaultdict: "defaultdict",
    collections.deque: "deque",
}
MAPPINGS = ("dict", "OrderedDict", "Counter", "defaultdict")
_MAKE: Mapping[str, Callable[[], Any]] = {name: kind for kind, name in KINDS.items()}


class Containers:
    """One side's table. `side` keeps the numbers of the two sides apart."""

    def __init__(self, side: int) -> None:
        self._next = side
        self._shared: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}  # id() of a shared container → its number
        self._agreed: dict[int, Any] = {}  # its items, as both sides last knew them
        self._filling: set[int] = set()

    def clear(self) -> None:
        """A new question: nothing is shared any more."""
        self._shared.clear()
        self._numbers.clear()
        self._agreed.clear()
        self._filling.clear()

    def tree(self, value: Any, encode: Encode) -> dict[str, Any]:
        """A container as a tree: what it holds where it is new to the other side, else its number alone."""
        number = self._numbers.get(id(value))
        if number is not None:
            return {"t": "same", "id": number}
        number = self._share(value)
        try:
            tree = {"t": _kind(value), "id": number, "v": _contents(value, encode), **_more(value, encode)}
        except UnsupportedError:
            self.drop([number])
            raise
        self._agree(number, value)
        return tree

    def make(self, tree: Mapping[str, Any], decode: Encode) -> Any:
        """The container of a tree that came; WireError where it isn't one."""
        kind = text(tree, "t")
        if kind == "same":
            return self._find(whole(tree, "id"))
        number = None if tree.get("id") is None else whole(tree, "id")
        value = _empty(kind, tree, decode)
        if number is not None:
            self._know(number, value)  # before its items: it may hold itself
            self._filling.add(number)
        filled = _fill(value, kind, tree, decode)
        if filled is not value and number is not None:
            self._know(number, filled)
        self._agree(number, filled)
        return filled

    def changes(self, encode: Encode) -> list[dict[str, Any]]:
        """Every shared container that isn't any more what both sides last knew."""
        told = []
        for number, value in list(self._shared.items()):
            if number not in self._filling and not _same(value, self._agreed.get(number)):
                told.append({"t": _kind(value), "id": number, "v": _contents(value, encode)})
                self._agree(number, value)
        return told

    def apply(self, told: Iterable[Any], decode: Encode) -> None:
        """Take over what the other side has changed."""
        for tree in told:
            if type(tree) is not dict:
                raise WireError("A changed container isn't an object.")
            number = whole(tree, "id")
            value = self._find(number)
            if text(tree, "t") != _kind(value):
                raise WireError("A container has become one of another kind.")
            self._filling.add(number)  # a key may ask the other side for its hash meanwhile
            _refill(value, tree, decode)
            self._agree(number, value)

    def unused(self) -> list[int]:
        """Forget what nobody here holds any more; the numbers, for the other side to do the same."""
        found = [number for number, value in self._shared.items() if sys.getrefcount(value) <= OWN_REFERENCES]
        self.drop(found)
        return found

    def drop(self, numbers: Any) -> None:
        """These aren't shared any more."""
        for number in numbers if type(numbers) is list else ():
            value = self._shared.pop(number, None) if type(number) is int else None
            if value is not None:
                self._numbers.pop(id(value), None)
                self._agreed.pop(number, None)

    def __len__(self) -> int:
        return len(self._shared)

    def _share(self, value: Any) -> int | None:
        if len(self._shared) >= TRACKED:
            return None
        self._next += 2
        self._know(self._next, value)
        return self._next

    def _know(self, number: int, value: Any) -> None:
        before = self._shared.get(number)
        if before is not None:
            self._numbers.pop(id(before), None)
        if len(self._shared) > 2 * TRACKED:
            raise WireError("A frame shares too many containers.")
        self._shared[number] = value
        self._numbers[id(value)] = number

    def _agree(self, number: int | None, value: Any) -> None:
        if number is not None:
            self._agreed[number] = _snapshot(value)
            self._filling.discard(number)

    def _find(self, number: int) -> Any:
        if number not in self._shared:
            raise WireError("A frame names a container that isn't shared.")
        return self._shared[number]


def is_container(value: Any) -> bool:
    """A list, dict, set or the like of Python's own, an array; not of a subclass."""
    return type(value) in KINDS or is_array(value)


def is_array(value: Any) -> bool:
    """An array of NumPy's, exactly."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def _kind(value: Any) -> str:
    return KINDS.get(type(value), "array")


def _contents(value: Any, encode: Encode) -> Any:
    kind = _kind(value)
    if kind in MAPPINGS:
        return [[encode(name), encode(item)] for name, item in value.items()]
    if kind == "bytearray":
        return encode(bytes(value))
    return encode(_Raw(value)) if kind == "array" else [encode(item) for item in value]


class _Raw:
    """An array whose values alone are to travel."""

    def __init__(self, array: Any) -> None:
        self.array = array


def raw_array(value: Any) -> Any:
    """The array, where `value` asks for its bare values; else None."""
    return value.array if type(value) is _Raw else None


def _more(value: Any, encode: Encode) -> dict[str, Any]:
    if isinstance(value, collections.defaultdict):
        return {"factory": encode(value.default_factory)}
    return {"most": value.maxlen} if isinstance(value, collections.deque) else {}


def _empty(kind: str, tree: Mapping[str, Any], decode: Encode) -> Any:
    if kind == "array":
        return None
    made = _MAKE.get(kind)
    if made is None:
        raise WireError("A container is of no kind that is carried.")
    if kind == "defaultdict":
        factory = decode(tree.get("factory"))
        return collections.defaultdict(factory if callable(factory) else None)
    if kind == "deque":
        return collections.deque(maxlen=None if tree.get("most") is None else whole(tree, "most"))
    return made()


def _fill(value: Any, kind: str, tree: Mapping[str, Any], decode: Encode) -> Any:
    if kind == "array":
        return decode(tree.get("v"))
    _refill(value, tree, decode)
    return value


def _refill(value: Any, tree: Mapping[str, Any], decode: Encode) -> None:
    kind = _kind(value)
    if kind == "array":
        _refill_array(value, decode(tree.get("v")))
        return
    if kind == "bytearray":
        data = decode(tree.get("v"))
        if type(data) is not bytes:
            raise WireError("The bytes of a bytearray aren't bytes.")
        value[:] = data
        return
    items = listed(tree, "v")
    new = [_pair(item, decode) for item in items] if kind in MAPPINGS else [decode(item) for item in items]
    value.clear()
    if kind in MAPPINGS:
        for name, item in new:
            value[name] = item
    elif kind == "set":
        value.update(map(key, new))
    else:
        value.extend(new)


def _refill_array(array: Any, new: Any) -> None:
    if not is_array(new) or new.shape != array.shape or new.dtype != array.dtype:
        raise WireError("An array has changed its shape or type.")
    if not array.flags.writeable:
        raise UnsupportedError("a read-only array that was written to")
    array[...] = new


def _pair(item: Any, decode: Encode) -> tuple[Any, Any]:
    if type(item) is not list or len(item) != 2:
        raise WireError("A dict isn't made of pairs.")
    return key(decode(item[0])), decode(item[1])


def _snapshot(value: Any) -> Any:
    kind = _kind(value)
    if kind in MAPPINGS:
        return tuple(value.keys()), tuple(value.values())
    if kind == "array":
        return value.tobytes()
    return bytes(value) if kind == "bytearray" else tuple(value)


def _same(value: Any, agreed: Any) -> bool:
    now = _snapshot(value)
    if type(now) is bytes:
        return bool(now == agreed)
    if _kind(value) in MAPPINGS:
        return agreed is not None and _identical(now[0], agreed[0]) and _identical(now[1], agreed[1])
    return agreed is not None and _identical(now, agreed)


def _identical(now: tuple[Any, ...], agreed: tuple[Any, ...]) -> bool:
    """By identity: equality would run code of the student's."""
    return len(now) == len(agreed) and all(map(operator.is_, now, agreed))
