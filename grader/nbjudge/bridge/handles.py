"""Numbers that stand for what can't travel: functions, classes, objects. One table for what is ours, one for theirs.

What is lent is kept until the other side has let go of it as often as it was told of it, so nothing that both sides
have forgotten stays, and nothing vanishes while a message that names it is under way.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from nbjudge.bridge.standing import Stand
from nbjudge.bridge.values import UnsupportedError
from nbjudge.errors import WireError

THINGS = 1 << 16


class Lent:
    """What the other side knows of ours, by number.

    >>> lent = Lent()
    >>> lent.find(lent.number_of(len))
    <built-in function len>
    """

    def __init__(self) -> None:
        self._things: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}  # id() of a thing that is kept → its number
        self._told: dict[int, int] = {}  # how often the other side was told of it
        self._next = 0
        self._functions: set[int] = set()

    def number_of(self, thing: Any) -> int:
        """Its number, told once more.

        Raises:
            UnsupportedError: there are too many already.
        """
        number = self._numbers.get(id(thing))
        if number is None:
            if len(self._things) >= THINGS:
                raise UnsupportedError(f"more than {THINGS} functions and objects at once")
            number, self._next = self._next, self._next + 1
            self._things[number], self._numbers[id(thing)], self._told[number] = thing, number, 0
        self._told[number] += 1
        return number

    def function(self, function: Any) -> int:
        """The number of something that the other side may call."""
        number = self.number_of(function)
        self._functions.add(number)
        return number

    def is_function(self, thing: Any) -> bool:
        """Was this very thing lent as something to call?"""
        return self._numbers.get(id(thing)) in self._functions

    def find(self, number: int) -> Any:
        """What this number stands for; WireError where it stands for nothing."""
        if number not in self._things:
            raise WireError("A frame names something that was never passed.")
        return self._things[number]

    def forget(self, gone: Sequence[tuple[int, int]]) -> None:
        """The other side has let go of these, as often as it says."""
        for number, times in gone:
            if number not in self._things:
                continue
            self._told[number] -= times
            if self._told[number] <= 0:
                thing = self._things.pop(number)
                del self._numbers[id(thing)], self._told[number]
                self._functions.discard(number)

    def __len__(self) -> int:
        return len(self._things)


class Borrowed:
    """Stand-ins for the other side's things: in one role the same one each time, while anybody here holds it."""

    def __init__(self) -> None:
        self._stand_ins: dict[tuple[int, str], weakref.ref[Any]] = {}
        self._known: dict[int, tuple[int, Stand]] = {}  # id() of a living stand-in → its number, and its role
        self._heard: dict[tuple[int, str], int] = {}
        self._gone: list[tuple[int, int]] = []

    def find(self, number: int, part: str = "") -> Any:
        """The stand-in for a number that the other side has just named, in this part, or None."""
        reference = self._stand_ins.get((number, part))
        found = None if reference is None else reference()
        if found is not None:
            self._heard[number, part] += 1
        return found

    def keep(self, number: int, stand_in: Any, standing: Stand, part: str = "") -> None:
        """From now on this stands for that number."""
        key, place = id(stand_in), (number, part)
        self._known[key], self._heard[place] = (number, standing), 1
        self._stand_ins[place] = weakref.ref(stand_in, lambda _gone: self._let_go(place, key))

    def _let_go(self, place: tuple[int, str], key: int) -> None:
        self._known.pop(key, None)
        self._stand_ins.pop(place, None)
        self._gone.append((place[0], self._heard.pop(place, 1)))

    def number_of(self, thing: Any) -> int | None:
        """The number that a stand-in stands for; None for anything else."""
        known = self._known.get(id(thing))
        return None if known is None else known[0]

    def standing_of(self, thing: Any) -> Stand | None:
        """As what a stand-in may be used; None for anything else."""
        known = self._known.get(id(thing))
        return None if known is None else known[1]

    def gone(self) -> list[tuple[int, int]]:
        """What nobody here holds any more, since the last question: number, and how often it was named."""
        gone = self._gone[:]
        del self._gone[: len(gone)]
        return gone

    def __len__(self) -> int:
        return len(self._stand_ins)
