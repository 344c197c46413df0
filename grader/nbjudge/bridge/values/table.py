"""One table of the kinds of values that cross: what one is called on the wire, which types it takes, how it is said.

A tree is a JSON scalar, or an object whose `t` names a kind. A new kind is one file beside this one, which makes a
`ValueKind` and calls `known` with it. What no kind takes is asked of `other`: functions, classes, objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from nbjudge.errors import WireError
from nbjudge.wire import DEPTH as PACKET_DEPTH
from nbjudge.wire import listed, text

DEPTH = 24
ITEMS = 16 << 20  # numbers in one array or tensor
DIMENSIONS = 16
WHOLE_BITS = 14_000  # of a whole number, as many as Python reads from 4,300 digits
ROUNDING = 1e-6  # of a number's size: a smaller imaginary part is left of computing with complex numbers
STORAGE_BYTES = 64 << 20
SHARED_BYTES = 96 << 20  # of all that one packet brings; twice that still fits into a packet

Tree: TypeAlias = Mapping[str, Any]


class UnsupportedError(BaseException):
    """A value can't be carried to the other process. Not an Exception, so that a test's `except` doesn't hide it."""


class Body:
    """A packet's raw bytes, which trees point into: put together on one side, read on the other."""

    def __init__(self, data: bytes | bytearray | None = None) -> None:
        self.data = bytearray() if data is None else data

    def put(self, data: bytes) -> int:
        """Append a value's bytes; returns where they start.

        Raises:
            UnsupportedError: that is more than one packet brings.
        """
        if len(data) + len(self.data) > SHARED_BYTES:
            raise UnsupportedError(f"more than {SHARED_BYTES >> 20} MiB of numbers at once")
        return self.append(data)

    def append(self, data: bytes) -> int:
        """The same for what is bounded elsewhere."""
        start = len(self.data)
        self.data += data
        return start

    def take(self, start: int, size_bytes: int) -> bytes:
        """These bytes; WireError where they lie outside the body, or are too many."""
        if size_bytes > STORAGE_BYTES or start + size_bytes > len(self.data):
            raise WireError("Bytes lie outside their frame.")
        return bytes(self.data[start : start + size_bytes])


class Sharing(Protocol):
    """What both sides hold and may change in place."""

    memories: Any  # that arrays lie in

    @property
    def said(self) -> int:
        """How far this side has numbered its own."""

    def unsay(self, said: int) -> None:
        """Those beyond haven't come over there after all."""

    def number_of(self, value: Any) -> int | None:
        """The number of what is shared."""

    def tree(self, value: Any, encode: Encoder) -> dict[str, Any]:
        """A container as a tree."""

    def make(self, tree: Tree, decode: Decoder) -> Any:
        """The container of a tree that came."""

    def trees(self, values: list[Any], encode: Encoder) -> list[dict[str, Any]]:
        """Several new ones that hold one another."""

    def make_all(self, told: list[Any], values: list[Any], decode: Decoder) -> Any:
        """The first of several that hold one another, of which each is empty yet."""


class Noting(Protocol):
    """What crossed as a copy, to be found again when it has changed."""

    def note(self, kind: ValueKind, value: Any) -> None:
        """This has just been said, or heard."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """What is at hand while one packet is said or heard; `parts` is what rooms above this one have put there."""

    shared: Sharing
    copies: Noting
    body: Body = field(default_factory=Body)
    parts: Mapping[str, Any] = field(default_factory=dict)
    asked: tuple[type, ...] = ()  # classes whose objects aren't data, whatever they derive from
    objects_first: bool = False  # is an object of a course's class told by number, and its state when it's asked for?


@dataclass(slots=True)
class Encoder:
    """Says values as trees. What a kind says of a value's items it says one level deeper, so the depth is bounded."""

    crossing: Crossing
    other: OtherValue
    depth: int = DEPTH
    _deeper: Encoder | None = None  # one for all that lies one level below

    def __call__(self, value: Any) -> Any:
        """The tree of a value.

        Raises:
            UnsupportedError: nested too deep, or larger than what is carried.
        """
        if self.depth == 0:
            raise UnsupportedError(f"a value that is nested deeper than {DEPTH} levels")
        inner = self._deeper = self._deeper or Encoder(self.crossing, self.other, self.depth - 1)
        kind = kind_of(value)
        if kind is None or (self.crossing.asked and issubclass(type(value), self.crossing.asked)):
            return self.other(value, inner)
        tree = kind.encode(value, inner)
        if kind.snapshot is not None:
            self.crossing.copies.note(kind, value)
        return tree


@dataclass(slots=True)
class Decoder:
    """Makes values of trees, as deep as a packet may be."""

    crossing: Crossing
    other: OtherTree
    depth: int = PACKET_DEPTH
    _deeper: Decoder | None = None

    def __call__(self, tree: Any) -> Any:
        """The value that a tree stands for; WireError where it isn't one of ours."""
        if tree is None or type(tree) in (bool, int, float, str):
            return tree
        if type(tree) is not dict or self.depth == 0:
            raise WireError("A value isn't one of the kinds that are carried.")
        inner = self._deeper = self._deeper or Decoder(self.crossing, self.other, self.depth - 1)
        kind = _named.get(text(tree, "t"))
        if kind is None:
            return self.other(tree, inner)
        value = kind.decode(tree, inner)
        if kind.snapshot is not None:
            self.crossing.copies.note(kind, value)
        return value


OtherValue: TypeAlias = Callable[[Any, Encoder], Any]
OtherTree: TypeAlias = Callable[[Tree, Decoder], Any]


def package_of(kind: type) -> str:
    """The package that a class is of; some know none, as the functions without a definition that SymPy makes.

    >>> package_of(type("f", (), {"__module__": None})), package_of(UnsupportedError)
    ('', 'nbjudge')
    """
    return (kind.__module__ or "").partition(".")[0]


@dataclass(frozen=True, slots=True)
class ValueKind:
    """One kind of value. `encode` gives the whole tree, or a scalar of JSON's; `decode` trusts nothing in it."""

    name: str
    types: tuple[type, ...]  # exactly these, no subclass
    encode: Callable[[Any, Encoder], Any]
    decode: Callable[[Tree, Decoder], Any]
    takes: Callable[[Any], bool] | None = None  # for types that may not be imported yet, or that only a look tells
    subclasses: bool = False  # where nothing else takes it, an instance of a subclass crosses as this kind
    watched: bool = False  # it is noticed by itself when a test looks into it
    snapshot: Callable[[Any], Any] | None = None  # of what crosses as a copy and can be changed in place
    lacks: Callable[[Any], bool] | None = None  # of what is watched: is a number of it missing?
    unreal: Callable[[Any], bool] | None = None  # of what is watched: does one have an imaginary part?
    truths: Callable[[Any], set[bool]] | None = None  # of what is watched: the truth values in it, if it holds these
    look: Callable[[Any], bytes] | None = None  # of what is watched: its numbers, to tell it from others


_by_type: dict[type, ValueKind] = {}
_looking: list[ValueKind] = []
_named: dict[str, ValueKind] = {}


def known(kind: ValueKind) -> ValueKind:
    """Enter a kind into the table.

    Raises:
        ValueError: one of that name, or of one of its types, is there already.
    """
    if kind.name in _named or not _by_type.keys().isdisjoint(kind.types):
        raise ValueError(f"{kind.name}, or one of its types, crosses already.")
    _named[kind.name] = kind
    _by_type.update(dict.fromkeys(kind.types, kind))
    if kind.takes is not None:
        _looking.append(kind)
    return kind


def kind_of(value: Any) -> ValueKind | None:
    """The kind that takes a value, by its type alone: no code of the value's own runs."""
    here = type(value)
    if (found := _by_type.get(here)) is not None:
        return found
    for kind in _looking:
        if kind.takes is not None and kind.takes(value):
            return kind
    return next((_by_type[base] for base in here.__mro__ if base in _by_type and _by_type[base].subclasses), None)


def is_watched(value: Any) -> bool:
    """Is it of a type that is noticed by itself when a test looks into it? Nothing else is held in such a one."""
    found = _by_type.get(type(value))
    return found is not None and found.watched


def is_data(kind: type) -> bool:
    """Do the objects of a class cross by value?"""
    return kind in _by_type


def is_value(value: Any) -> bool:
    """Does it cross by value?"""
    return kind_of(value) is not None


def encode(value: Any, crossing: Crossing, other: OtherValue | None = None) -> Any:
    """`value` as a tree; UnsupportedError where it holds what neither a kind nor `other` takes."""
    return Encoder(crossing, other or _refused)(value)


def decode(tree: Any, crossing: Crossing, other: OtherTree | None = None) -> Any:
    """The value of a tree; WireError where it is no tree of ours."""
    return Decoder(crossing, other or _unknown)(tree)


def _refused(value: Any, _encode: Encoder) -> Any:
    raise UnsupportedError(f"an object of class {type(value).__name__[:80]}")


def _unknown(_tree: Tree, _decode: Decoder) -> Any:
    raise WireError("A value isn't one of the kinds that are carried.")


# ---------------------------------------------------------------------- what kinds check with


def key(value: Any) -> Any:
    """What a dict or a set may hold; WireError for a value without a hash."""
    try:
        hash(value)
    except Exception:  # of an object of a course's class it computes this by what has come
        raise WireError("A key of a dict, or an item of a set, can't be one.") from None
    return value


def pairs(tree: Tree, decode: Decoder) -> list[tuple[Any, Any]]:
    """What a mapping is made of."""
    items = listed(tree, "v")
    if any(type(item) is not list or len(item) != 2 for item in items):
        raise WireError("A dict isn't made of pairs.")
    return [(key(decode(name)), decode(item)) for name, item in items]


def parts_of(tree: Tree, types: Iterable[type], decode: Decoder) -> list[Any]:
    """Exactly so many values of exactly these types; WireError otherwise."""
    wanted = list(types)
    found = [decode(part) for part in listed(tree, "v", len(wanted))]
    if [type(part) for part in found] != wanted:
        raise WireError(f"A {text(tree, 't')} isn't made of what it is made of.")
    return found


def whole_numbers(tree: Any, name: str, length: int = DIMENSIONS) -> tuple[int, ...]:
    """The list of whole numbers that `tree` has under `name`; WireError otherwise."""
    if type(tree) is not dict:
        raise WireError("A part of a frame isn't an object.")
    numbers = listed(tree, name, length)
    if any(type(number) is not int or not 0 <= number < 1 << 40 for number in numbers):
        raise WireError(f"{name!r} isn't a list of whole numbers.")
    return tuple(numbers)
