"""Exceptions as data: their class, what they say, their arguments and attributes."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nbjudge.bridge.libraries import name_in_library
from nbjudge.bridge.objects import RemoteClass
from nbjudge.bridge.values import UnsupportedError
from nbjudge.bridge.values.containers import STUDENT
from nbjudge.errors import WireError
from nbjudge.wire import listed, text

REASON_CHARS = 2000
PARTS = 64
NOTES = "__notes__"
SAID = "_said_"  # in an error made here: its text over there
MADE_OF = "_made_of_"  # in a class made here: the one that the other side knows, for an error that is passed back


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
    tree["args"] = [encode(Attempted(item)) for item in error.args[:PARTS]]
    kind = vars(type(error)).get(MADE_OF, type(error))
    known = isinstance(error, Exception) and (classes or isinstance(kind, RemoteClass))
    if known or name_in_library(kind):
        tree["class"] = encode(kind)
    if known:
        attributes = [pair for pair in vars(error).items() if pair[0] != SAID][:PARTS]
        tree["vars"] = [[str(name)[:200], encode(Attempted(item))] for name, item in attributes]
    if error.__cause__ is not None:
        tree["cause"] = encode(Attempted(error.__cause__))
    return tree


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
        item = decode(pair[1])
        if not isinstance(item, UnsupportedError) and (not pair[0].startswith("__") or pair[0] == NOTES):
            own[pair[0]] = item
    error.__dict__.update(own | {SAID: reason})
    cause = decode(tree["cause"]) if "cause" in tree else None
    error.__cause__ = cause if isinstance(cause, Exception) else None
    return error


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
