"""As what a thing of the other side's stands here, and the places that it has come from.

A *place* is a name that was asked for and what was done with it: `f()`, `Net.weight`, `f()[]` for what a result holds,
`f()!` for what an exception carries, `f()<` for what a function of ours was given meanwhile, `f()~` for what was put
into a container of ours. Never a count of crossings.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

CHARS = 300  # of one place; what lies deeper is a place that nothing was ever seen at
MOST = 8  # places of one thing


class Refused(BaseException):
    """A thing was used that stands in no role here. Not an Exception, so that a test's `except` doesn't hide it."""

    def __init__(self, sentence: str, *, waits: bool) -> None:
        super().__init__(sentence)
        self.waits = waits  # does a person have to look, or is it wrong?


class Role(enum.Enum):
    """As what a thing may be used."""

    OBJECT = "an object, or a class"
    CALLABLE = "something to call"
    ITERATOR = "an iterator"
    STRANGER = "nothing: it can be passed on"


@dataclass(frozen=True, slots=True)
class Nature:
    """What the other side says of a thing that isn't data."""

    form: str  # "function", "object", "class", "iterator", or "library": a thing that both sides know by name
    name: str  # of its class; a function's or a class's own
    classes: tuple[type, ...] = ()  # the stand-ins of its class and of that class's bases
    homes: frozenset[str] = frozenset()  # the classes of libraries that it is an instance of
    calls: bool = False
    ours: bool = False  # is its class written in the notebook?
    manages: bool = False  # can it stand in a `with`?


@dataclass(slots=True)
class Stand:
    """One stand-in's role, and where it has come from."""

    role: Role
    places: tuple[str, ...] = ()
    sentence: str = ""  # of a stranger: what is wrong with it
    waits: bool = False
    of_class: bool = False  # what is asked of a class, other than to make one, is found at its objects' places

    def also(self, places: tuple[str, ...]) -> None:
        """It has come from there too."""
        self.places = tuple(dict.fromkeys((*self.places, *places)))[:MOST]

    def under(self, step: str) -> tuple[str, ...]:
        """The places of what is reached by this step."""
        found = [f"<{place}>" if self.of_class and step != "()" else place for place in self.places]
        return tuple(place if step == "[]" == place[-2:] else place + step for place in found if len(place) < CHARS)


class Gate(Protocol):
    """Who decides as what a thing stands here."""

    def admit(self, nature: Nature, places: tuple[str, ...]) -> Stand:
        """A thing that isn't data has come from these places."""

    def knows(self, kind: type) -> bool:
        """Is it a class that was asked for, or derived from one?"""

    def named(self, name: str, kind: type) -> None:
        """A name that was asked for stands for this class."""

    def draws(self, places: tuple[str, ...], *, drew: bool) -> bool:
        """Are random numbers drawn over there? `drew`: they were this time."""

    def refuse(self, standing: Stand) -> NoReturn:
        """A stranger is used. Raises `Refused`."""

    def may_run(self, places: tuple[str, ...], said: str) -> bool:
        """Is this text of a thing's, which runs as code, what the released answer has there?"""

    def may_raise(self, home: str, places: tuple[str, ...]) -> bool:
        """May an error there be of this class of a library's, and not only of Python's nearest?"""

    def is_given(self, homes: Sequence[str], places: tuple[str, ...]) -> bool:
        """May an object there be made here, whose class, of the course's, is called so, or derives from such?"""

    def looked(self, asked: Sought, result: Any) -> None:
        """What was asked of a thing, and what came."""

    def asking(self, asked: Sought) -> None:
        """This is about to be asked of a thing."""

    def came(self, places: tuple[str, ...], value: Any) -> None:
        """What the other side has brought of itself: into an argument, to a function of ours, as a gradient."""


@dataclass(frozen=True, slots=True)
class Sought:
    """What was asked of a thing: `op` is "call", "attribute", "method", "special", …; `given` the arguments."""

    op: str
    thing: Any
    name: str
    given: tuple[Any, ...]
    places: tuple[str, ...]  # of what comes back


class Everything:
    """The gate of a side that decides nothing: whatever comes may be used."""

    def admit(self, nature: Nature, places: tuple[str, ...]) -> Stand:
        """As what it is."""
        return Stand(_ROLES[nature.form], places)

    def knows(self, kind: type) -> bool:  # noqa: ARG002 - a gate's signature
        """Every class."""
        return True

    def named(self, name: str, kind: type) -> None:
        """Nobody wants to know."""

    def draws(self, places: tuple[str, ...], *, drew: bool) -> bool:  # noqa: ARG002 - a gate's signature
        """Nobody wants to know."""
        return drew

    def refuse(self, standing: Stand) -> NoReturn:
        """Raises `Refused`."""
        raise Refused(standing.sentence, waits=standing.waits)

    def may_run(self, places: tuple[str, ...], said: str) -> bool:  # noqa: ARG002 - a gate's signature
        """None is run on this side."""
        return False

    def may_raise(self, home: str, places: tuple[str, ...]) -> bool:  # noqa: ARG002 - a gate's signature
        """None is."""
        return False

    def is_given(self, homes: Sequence[str], places: tuple[str, ...]) -> bool:  # noqa: ARG002 - a gate's signature
        """Every one."""
        return True

    def looked(self, asked: Sought, result: Any) -> None:
        """Nobody wants to know."""

    def asking(self, asked: Sought) -> None:
        """Nobody wants to know."""

    def came(self, places: tuple[str, ...], value: Any) -> None:
        """Nobody wants to know."""


_ROLES: Mapping[str, Role] = {
    "function": Role.CALLABLE,
    "object": Role.OBJECT,
    "class": Role.OBJECT,
    "iterator": Role.ITERATOR,
    "library": Role.OBJECT,
}

# Operators that mean one thing, whichever of them Python happens to use.
_GROUPS: Mapping[str, str] = {
    **dict.fromkeys(("__eq__", "__ne__"), "=="),
    **dict.fromkeys(("__lt__", "__gt__", "__le__", "__ge__"), "<"),
    **dict.fromkeys(("__bool__", "__len__"), "len"),
    **dict.fromkeys(("__iter__", "__reversed__", "__getitem__", "__next__"), "[]"),
    "__call__": "()",
}


def step(op: str, name: str) -> str:
    """How a question leads from a thing's place to that of its result.

    >>> [step("call", ""), step("attribute", "x"), step("special", "__rmul__"), step("special", "__ne__")]
    ['()', '.x', '.__mul__()', '.==()']
    """
    if op == "special":
        found = _GROUPS.get(name) or name
        short = name[2:-2]
        for prefix in ("r", "i"):
            if short[:1] == prefix and f"__{short[1:]}__" in PLAIN:
                found = f"__{short[1:]}__"
        return found if found in ("()", "[]") else f".{found}()"
    return "()" if op == "call" else f".{name[:80]}" + ("()" if op == "method" else "")


PLAIN = frozenset(
    f"__{name}__"
    for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift")
) | {"__and__", "__xor__", "__or__"}
USES: Mapping[Role, frozenset[str]] = {  # the special methods that may be used of a thing in a role
    Role.CALLABLE: frozenset({"__call__"}),
    Role.ITERATOR: frozenset({"__iter__", "__next__", "__length_hint__"}),
}
DONE: Mapping[Role, str] = {Role.CALLABLE: "called", Role.ITERATOR: "iterated over"}  # what "it can only be …" ends in
