"""Exceptions as data: their class, what they say, their arguments and attributes."""

from __future__ import annotations

import builtins
import contextlib
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from nbjudge.bridge.libraries import home_of, name_in_library
from nbjudge.bridge.objects import RemoteClass
from nbjudge.bridge.values import UnsupportedError, is_value
from nbjudge.bridge.values.containers import STUDENT
from nbjudge.errors import WireError
from nbjudge.wire import listed, text

REASON_CHARS = 2000
PARTS = 64
GIVEN_BYTES = 1 << 16  # of one attribute that a class gives: nobody may ever ask for it
NESTED = 3  # errors within errors of which what their classes give is told, too
NATIVE: Mapping[type, tuple[str, ...]] = {  # fields of Python's own that aren't made of the arguments
    OSError: ("errno", "strerror", "filename", "filename2"),
    ImportError: ("msg", "name", "path"),
    AttributeError: ("name", "obj"),
    NameError: ("name",),
}
PYTHONS = frozenset(dir(BaseException))  # what every error has: no attribute of a student's may stand in their place
NOTES = "__notes__"
SAID = "_said_"  # in an error made here: its text over there
MADE_OF = "_made_of_"  # in a class made here: the one that the other side knows, for an error that is passed back


_telling: list[BaseException] = []  # the outermost first


class RemoteError(Exception):
    """An exception of the other process whose class isn't known here."""


class Attempted:
    """A value that is told if it can be, and otherwise why not."""

    def __init__(self, value: Any) -> None:
        self.value = value


def described(error: BaseException, encode: Callable[[Any], Any], *, classes: bool) -> dict[str, Any]:
    """An exception as a tree; with `classes` one whose class was defined here names it."""
    tree: dict[str, Any] = {"t": "exception", "name": type(error).__name__[:200], "text": _said(error)}
    tree["bases"] = [base.__name__[:200] for base in type(error).__mro__[:PARTS]]
    if isinstance(error, UnsupportedError):
        return tree | {"unsupported": True}
    if any(error is one for one in _telling):
        raise UnsupportedError("an error that holds itself")
    _telling.append(error)
    try:
        return tree | _parts(error, encode, classes=classes)
    finally:
        _telling.pop()


def _parts(error: BaseException, encode: Callable[[Any], Any], *, classes: bool) -> dict[str, Any]:
    tree: dict[str, Any] = {"args": [encode(Attempted(item)) for item in error.args[:PARTS]]}
    kind = vars(type(error)).get(MADE_OF, type(error))
    known = isinstance(error, Exception) and (classes or isinstance(kind, RemoteClass))
    if known or name_in_library(kind):
        tree["class"] = encode(kind)
    if known:
        attributes = [pair for pair in vars(error).items() if pair[0] != SAID]
        attributes += _given(error) if classes and len(_telling) <= NESTED else []
        attributes = attributes[:PARTS]
        tree["vars"] = [[str(name)[:200], encode(Attempted(item))] for name, item in attributes]
    if error.__cause__ is not None:
        tree["cause"] = encode(Attempted(error.__cause__))
    return tree


def _given(error: BaseException) -> Iterator[tuple[str, Any]]:
    """What its classes give it, as it is now: by a property or a slot, for all, as a method, in fields of Python's.

    It is asked for here, where its code belongs; over there nothing of it may run.
    """
    seen = {*PYTHONS, *vars(error)}
    for kind in type(error).__mro__:
        for name, part in list(vars(kind).items()):
            if name in seen or name.startswith("__"):
                continue
            seen.add(name)
            with contextlib.suppress(Exception, SystemExit):  # a property of the student's may raise anything
                item = getattr(error, name)
                if _is_told(kind, name, part, item):
                    yield name, item


def _is_told(kind: type, name: str, part: Any, item: Any) -> bool:
    """Of what a class gives: methods of the notebook's own, small data, and whatever a property or a slot holds."""
    if kind.__module__ == "builtins":
        return name in NATIVE.get(kind, ()) and is_value(item) and _is_small(item)
    if isinstance(part, types.FunctionType | staticmethod | classmethod):
        return home_of(kind) is None
    return _is_small(item) if is_value(item) else hasattr(type(part), "__get__")


def _is_small(value: Any) -> bool:
    parts, size = [value], 0
    while parts and size <= GIVEN_BYTES:
        part = parts.pop()
        size += len(part) if isinstance(part, str | bytes | bytearray) else 8 + int(getattr(part, "nbytes", 0))
        if isinstance(part, dict):
            parts += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            parts += part
    return size <= GIVEN_BYTES


def _said(error: BaseException) -> str:
    try:
        return str(error)[:REASON_CHARS]
    except Exception:  # the student's own __str__ may do anything
        return ""


class Kinds(Protocol):
    """Which of the other side's exception classes may be what they are."""

    def is_known(self, kind: type) -> bool:
        """Is it one that was asked for?"""

    def of_library(self, kind: type) -> type | None:
        """The library's own that it stands for, where that may be raised."""

    def of_error(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Meanwhile what is decoded is what the exception has under this name."""


def made(tree: Any, decode: Callable[[Any], Any], kinds: Kinds) -> BaseException:
    """The exception that the other side describes; of Python's nearest class where its own is none of these `kinds`."""
    if type(tree) is not dict:
        raise WireError("A frame describes no exception.")
    name, reason = text(tree, "name"), text(tree, "text", REASON_CHARS)
    if tree.get("unsupported") is True:
        return UnsupportedError(reason)
    kind = decode(tree["class"]) if "class" in tree else None
    args = [decode(item) for item in listed(tree, "args", PARTS)]
    carried = all(not isinstance(item, UnsupportedError) for item in args)
    if not isinstance(kind, RemoteClass) or not issubclass(kind, Exception) or not kinds.is_known(kind):
        of_library = kinds.of_library(kind) if isinstance(kind, RemoteClass) else None
        kind = _own_class(of_library or kind, name, listed(tree, "bases", PARTS))
    error = _constructed(kind, tuple(args) if carried else (reason,), name)
    own: dict[str, Any] = {}
    for pair in listed(tree, "vars", PARTS) if "vars" in tree else ():
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str:
            raise WireError("An exception's attributes aren't pairs.")
        is_function = type(pair[1]) is dict and pair[1].get("t") == "function"  # what each gives has places of its own
        with kinds.of_error(pair[0]) if is_function else contextlib.nullcontext():
            item = decode(pair[1])
        if not isinstance(item, UnsupportedError) and not _put_into_field(error, pair[0], item) and _may_have(pair[0]):
            own[pair[0]] = item
    error.__dict__.update(own | {SAID: reason})
    cause = decode(tree["cause"]) if "cause" in tree else None
    error.__cause__ = cause if isinstance(cause, Exception) else None
    return error


def _may_have(name: str) -> bool:
    return name == NOTES or not (name.startswith("__") or name in PYTHONS)


def _put_into_field(error: BaseException, name: str, item: Any) -> bool:
    """Into the one of Python's own that has this name, if there is one: no attribute would be found beside it."""
    kind = next((kind for kind in type(error).__mro__ if name in NATIVE.get(kind, ())), None)
    if kind is not None and is_value(item):
        vars(kind)[name].__set__(error, item)
    return kind is not None


def is_told(error: BaseException) -> bool:
    """Is it one that the other side has described, and not one of this side's own?"""
    return SAID in vars(error)


def _constructed(kind: type[Exception], args: tuple[Any, ...], name: str) -> Exception:
    """An exception whose native fields are set: Python's C code relies on StopIteration's value."""
    parent = ValueError if issubclass(kind, ValueError) else RemoteError  # for arguments that Python's own can't have
    for made, given in ((kind, args), (_own_class(parent, name, []), ()), (RemoteError, ())):
        native: Any = next(base for base in made.__mro__ if base.__module__ == "builtins")
        try:
            error = made.__new__(made, *given)
            native.__init__(error, *given)
        except (TypeError, ValueError):
            continue
        return error
    raise WireError("An exception can't be made.")


def _own_class(kind: Any, name: str, bases: list[Any]) -> type[Exception]:
    """A class made here: of the exception that both sides know, else of Python's nearest."""
    base = kind if _is_plain_exception(kind) else next(filter(None, map(builtin_exception, bases)), RemoteError)
    members: Mapping[str, Any] = {
        "__module__": STUDENT,
        "__str__": lambda self: str(self.__dict__.get(SAID, "")),
        MADE_OF: base,
    }
    return type(name if name.isidentifier() else "RemoteError", (base,), dict(members))


def _is_plain_exception(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, BaseExceptionGroup)


def builtin_exception(name: Any) -> type[BaseException] | None:
    """Python's own exception class of this name: a cell survives `SystemExit` too, but no other that ends a process."""
    if name == "SystemExit":
        return SystemExit
    found = getattr(builtins, name, None) if type(name) is str else None
    if not isinstance(found, type) or not issubclass(found, Exception):
        return None
    return None if issubclass(found, BaseExceptionGroup) else found
