"""Global names that both processes know: where one side binds or deletes one, the next packet tells the other.

A test that deletes or replaces a function is noticed by the answer that calls it, and a test notices what an answer
counts in a global variable, as in one process. Which names these are is the judge's to say.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, MutableMapping
from typing import Any

from nbjudge.bridge.values import UnsupportedError
from nbjudge.errors import WireError

GONE = object()
MOST = 1 << 12


class SharedNames:
    """One side's namespace, what it tells of it, and what the other side may tell.

    >>> ours, theirs = SharedNames(), SharedNames()
    >>> ours.watch({"f": 1}, tells=["f"], hears=[]); theirs.watch({"f": 1}, tells=[], hears=["f"])
    >>> del ours.namespace["f"]
    >>> theirs.apply(ours.changes(lambda value: value), lambda tree: tree)
    >>> theirs.namespace
    {}
    """

    def __init__(self) -> None:
        self.namespace: MutableMapping[str, Any] = {}
        self._known: dict[str, Any] = {}  # of the names that this side tells: what the other side knows of them
        self._hears: frozenset[str] = frozenset()
        self._first: dict[str, Any] = {}  # what all of these stood for at first

    def watch(self, namespace: MutableMapping[str, Any], tells: Collection[str], hears: Collection[str]) -> None:
        """From here on these are told, and these heard; what they stand for now is known to both sides."""
        self.namespace = namespace
        self._known = {name: namespace.get(name, GONE) for name in tells}
        self._hears = frozenset(hears)
        self._first = {name: namespace.get(name, GONE) for name in (*tells, *hears)}

    def changes(self, encode: Callable[[Any], Any]) -> list[list[Any]]:
        """What has been bound or deleted here since the last packet, as trees.

        Raises:
            UnsupportedError: a value can't be told.
        """
        told = []
        for name, before in self._known.items():
            now = self.namespace.get(name, GONE)
            if now is before:
                continue
            self._known[name] = now
            if isinstance(now, types.ModuleType):  # each process imports for itself
                continue
            if type(now) is types.FunctionType and now is self._first.get(name):
                told.append([name, None, True])  # the same again: each side has its own
            else:
                told.append([name] if now is GONE else [name, encode(now)])
        return told

    def apply(self, told: list[Any], decode: Callable[[Any], Any]) -> None:
        """Take over what the other side has bound or deleted.

        Raises:
            UnsupportedError: the other side has bound something that can't be told.
        """
        for change in told:
            if type(change) is not list or not 1 <= len(change) <= 3 or change[0] not in self._hears:
                raise WireError("A frame binds a name that isn't shared.")
            name, *tree = change
            value = GONE if not tree else decode(tree[0]) if len(tree) == 1 else self._first[name]
            if isinstance(value, UnsupportedError):
                raise value
            if value is GONE:
                self.namespace.pop(name, None)
            else:
                self.namespace[name] = value
            if name in self._known:
                self._known[name] = value
