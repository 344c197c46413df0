"""Containers that both sides hold: what one changes in place changes on the other too. Copies must not change.

A container has no weak references, so they are shared for the length of one question and then forgotten.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from nbjudge.bridge.values.memories import Memories, overlap
from nbjudge.bridge.values.table import Decoder, Encoder, Tree, UnsupportedError, ValueKind, kind_of, known
from nbjudge.errors import WireError
from nbjudge.wire import text, whole

TRACKED = 1 << 14  # beyond these a container travels once, by value
OWN_REFERENCES = 3  # this table's, a loop's variable's, and the question's itself


@dataclass(frozen=True, slots=True)
class InPlace:
    """How a kind of container is said, made, and filled with what the other side has changed."""

    contents: Callable[[Any, Encoder], Any]
    fill: Callable[[Any, Tree, Decoder], Any]  # returns the container, a new one where none was given
    snapshot: Callable[[Any], Any]  # bytes, or a tuple of its items
    empty: Callable[[], Any] = lambda: None  # made before its items where it may hold itself
    last: Callable[[Any], bool] = lambda _value: False  # is it filled behind what it shares its memory with?


_in_place: dict[str, InPlace] = {}


def share(
    name: str,
    types: tuple[type, ...],
    how: InPlace,
    takes: Callable[[Any], bool] | None = None,
    tell: Callable[[Any, Encoder], Any] | None = None,
) -> None:
    """Enter a kind of container that both sides may change into the table; `tell` where it isn't said by itself."""
    _in_place[name] = how
    known(
        ValueKind(
            name,
            types,
            tell or (lambda value, encode: encode.crossing.shared.tree(value, encode)),
            lambda tree, decode: decode.crossing.shared.make(tree, decode),
            takes,
            subclasses=True,
        )
    )


class Containers:
    """One side's table. `side` keeps the numbers of the two sides apart."""

    def __init__(self, side: int) -> None:
        self.changing: Callable[[Any, Any, bool], None] | None = None  # told before the other side's are taken over
        self._side = side
        self._next = side
        self._shared: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}  # id() of a shared container → its number
        self._agreed: dict[int, Any] = {}  # its items, as both sides last knew them
        self._filling: set[int] = set()
        self.memories = Memories(side, self._shared)  # that arrays lie in

    def clear(self) -> None:
        """A new question: nothing is shared any more."""
        self._shared.clear()
        self._numbers.clear()
        self._agreed.clear()
        self._filling.clear()
        self.memories.clear()

    def number_of(self, value: Any) -> int | None:
        """The number of what is shared."""
        return self._numbers.get(id(value))

    def tree(self, value: Any, encode: Encoder) -> dict[str, Any]:
        """A container as a tree: what it holds where it is new to the other side, else its number alone."""
        if (number := self.number_of(value)) is not None:
            return {"t": "same", "id": number}
        number = self._share(value)
        tree = self._said(number, value, encode)
        self._agree(number, value)
        return tree

    def trees(self, values: list[Any], encode: Encoder) -> list[dict[str, Any]]:
        """Several new ones that hold one another: each has its number before any of them is said."""
        numbers = [self._share(value) for value in values]
        if None in numbers:
            raise UnsupportedError(f"more than {TRACKED} objects and containers in one question")
        told = [self._said(number, value, encode) for number, value in zip(numbers, values, strict=True)]
        for number, value in zip(numbers, values, strict=True):
            self._agree(number, value)
        return told

    def make_all(self, told: list[Any], values: list[Any], decode: Decoder) -> Any:
        """The first of several that hold one another; `values` are empty, and the last is filled first."""
        numbers = [whole(tree, "id") if type(tree) is dict else -1 for tree in told]
        if len({*numbers}) != len(numbers) or any(not self._is_free(number) for number in numbers):
            raise WireError("A new container has a number that isn't free.")
        for number, value in zip(numbers, values, strict=True):
            self._know(number, value)
            self._filling.add(number)
        for number, value, tree in reversed([*zip(numbers, values, told, strict=True)]):
            _in_place[_name(value)].fill(value, tree, decode)
            self._agree(number, value)
        return values[0]

    def _is_free(self, number: int) -> bool:
        return number >= 0 and number not in self._shared and number % 2 != self._side

    def make(self, tree: Tree, decode: Decoder) -> Any:
        """The container of a tree that came; WireError where it isn't one."""
        kind = text(tree, "t")
        if kind == "same":
            return self._find(whole(tree, "id"))
        how = _in_place[kind]
        number = None if tree.get("id") is None else whole(tree, "id")
        if number is not None and not self._is_free(number):
            raise WireError("A new container has a number that isn't free.")
        value = how.empty()
        if number is not None and value is not None:
            self._know(number, value)  # before its items: it may hold itself
            self._filling.add(number)
        try:
            filled = how.fill(value, tree, decode)
        except BaseException:
            if number is not None:
                self.memories.leave(number)  # there is no array that lies in it
            raise
        if filled is not value and number is not None:
            self._know(number, filled)
        self._agree(number, filled)
        return filled

    def changes(self, encode: Encoder) -> list[dict[str, Any]]:
        """Every shared container that isn't any more what both sides last knew."""
        told = []
        for number, value in list(self._shared.items()):
            if number not in self._filling and not _same(value, self._agreed.get(number)):
                told.append(self._said(number, value, encode))
                self._agree(number, value)
        return told

    def apply(self, told: Iterable[Any], decode: Decoder) -> None:
        """Take over what the other side has changed: all that is changed here is known before anything is."""
        found = [self._told(tree) for tree in told]
        if self.changing is not None:
            for number, value in ((number, value) for number, value, _ in found if not self.memories.is_lent(number)):
                for known_as in self._known_as(number, value):
                    self.changing(value, known_as, self.memories.is_ours(number))
        first, behind = ([one for one in found if _is_last(one[1]) is late] for late in (False, True))
        for number, value, tree in first + behind:
            self._filling.add(number)  # a key may ask the other side for its hash meanwhile
            if not self.memories.is_lent(number):
                _in_place[_name(value)].fill(value, tree, decode)
            self._agree(number, value)
        self.memories.check(number for number, _, _ in found)

    def _known_as(self, number: int, value: Any) -> list[Any]:
        """A view of the other side's is known as those of ours that it lies on; what is ours, or on none, as itself."""
        if number % 2 == self._side:
            return [value]
        ours = (self._shared[near] for near in self.memories.members(number) if near % 2 == self._side)
        return [each for each in ours if overlap(each, value)] or [value]

    def _told(self, tree: Any) -> tuple[int, Any, Tree]:
        if type(tree) is not dict:
            raise WireError("A changed container isn't an object.")
        number = whole(tree, "id")
        value = self._find(number)
        if text(tree, "t") != _name(value):
            raise WireError("A container has become one of another kind.")
        return number, value, tree

    @property
    def said(self) -> int:
        """How far this side has numbered its own."""
        return self._next

    def unsay(self, said: int) -> None:
        """Those beyond haven't come over there after all."""
        self.drop([number for number in self._shared if number > said and number % 2 == self._side])

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
                self.memories.leave(number)

    def __len__(self) -> int:
        return len(self._shared)

    def _said(self, number: int | None, value: Any, encode: Encoder) -> dict[str, Any]:
        return {"t": _name(value), "id": number, "v": _in_place[_name(value)].contents(value, encode)}

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


class Copies:
    """What crossed as a copy and can be changed in place: that it was changed isn't seen over there."""

    def __init__(self, *, watching: bool = True) -> None:
        self._watching = watching
        self._noted: dict[int, tuple[ValueKind, Any, Any]] = {}

    def note(self, kind: ValueKind, value: Any) -> None:
        """This has just been said, or heard; what has changed since it was noted stays as it was noted."""
        if self._watching and kind.snapshot is not None and len(self._noted) < TRACKED:
            self._noted.setdefault(id(value), (kind, value, kind.snapshot(value)))

    def clear(self) -> None:
        """A new question."""
        self._noted.clear()

    def check(self) -> None:
        """Raises UnsupportedError for a copy that has changed."""
        for kind, value, before in self._noted.values():
            if kind.snapshot is not None and not _alike(kind.snapshot(value), before):
                raise UnsupportedError(f"a {kind.name} that was changed in place after it was passed")


def _name(value: Any) -> str:
    kind = kind_of(value)
    return "" if kind is None else kind.name


def _is_last(value: Any) -> bool:
    return _in_place[_name(value)].last(value)


def _snapshot(value: Any) -> Any:
    return _in_place[_name(value)].snapshot(value)


def _same(value: Any, agreed: Any) -> bool:
    return _alike(_snapshot(value), agreed)


def _alike(now: Any, agreed: Any) -> bool:
    """Bytes by what they are, items by identity: equality would run code of the student's."""
    if type(now) is bytes or agreed is None:
        return bool(now == agreed)
    return len(now) == len(agreed) and all(map(operator.is_, now, agreed))


known(
    ValueKind("same", (), lambda _value, _encode: None, lambda tree, decode: decode.crossing.shared.make(tree, decode))
)
