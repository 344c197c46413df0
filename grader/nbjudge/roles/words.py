"""In the judge: which of a verdict's grounds are only the word of the student's process.

A *fact* is what it says of a tensor (`is_leaf`, …): listed, and a matter only where nothing else was looked at. A
*word* is what an object of the student's says about a value of the test's: whether it equals it, what is left when it
is taken away. An object that always says "equal" would pass, so words are counted in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nbjudge.bridge.objects import ARITHMETIC, COMPARING, RemoteClass, RemoteObject
from nbjudge.bridge.values.parts import BASES
from nbjudge.bridge.values.table import kind_of


class Words:
    """What one question has looked at so far."""

    def __init__(self) -> None:
        self.facts: set[str] = set()
        self.words: set[str] = set()
        self.data = False  # has it looked at numbers, texts, tensors' values, gradients?
        self.classes: frozenset[str] = frozenset()  # that the assignment asks for, by name
        self._named: tuple[type, ...] = ()

    def begin(self) -> None:
        """A new question."""
        self.facts.clear()
        self.words.clear()
        self.data = False
        self._named = ()

    def expect(self, found: Mapping[str, Any], asked: Iterable[str]) -> None:
        """The test reads these names: a class among them is one that it knows.

        `asked` are the names that the released answer defines as something else; a class there is a surprise.
        """
        other = set(asked) - self.classes
        known = [(name, value) for name, value in found.items() if isinstance(value, RemoteClass) and name not in other]
        self._named = tuple(value for name, value in known if name in self.classes or name[:1].isupper())
        self.data = self.data or any(map(is_data, found.values()))

    @property
    def claims(self) -> tuple[str, ...]:
        """All of them, for the list beside the grade."""
        return tuple(sorted(self.facts | self.words))

    @property
    def alone(self) -> bool:
        """Does the verdict rest on the student's word alone?"""
        return bool(self.words) or (bool(self.facts) and not self.data)

    def noticed(self, op: str, thing: Any, name: str, given: tuple[Any, ...], result: Any) -> None:
        """An answer about a thing of the student's."""
        self.data = self.data or is_data(result)
        if op not in ("special", "method") or result is NotImplemented:
            return
        kind = thing if isinstance(thing, RemoteClass) else type(thing)
        ours = [value for value in (*given[0], *(value for _, value in given[1])) if not _is_theirs(value)]
        if op == "special" and name in COMPARING:
            fact = self._expected(kind) and (not ours or name == "__contains__")
            (self.facts if fact else self.words).add(f"{name} of {kind.__name__[:80]}")
        elif op == "special" and name in ARITHMETIC and ours and not self._expected(kind):
            self.words.add(f"{name} of {kind.__name__[:80]}")
        elif op == "method" and any(map(is_data, ours)) and is_data(result) and not self._known(kind, name):
            self.words.add(f"{name[:80]} of {kind.__name__[:80]}")

    def _expected(self, kind: type) -> bool:
        return any(base in self._named or base.__name__ in self.classes for base in kind.__mro__)

    def _known(self, kind: type, name: str) -> bool:
        """A method of a class that the test expects, or of the library's class behind it."""
        if self._expected(kind) or type.__getattribute__(kind, "_shown_") is not None:
            return True
        return any(issubclass(kind, base) and hasattr(base, name) for base in BASES)


def is_data(value: Any) -> bool:
    """Something that a test can compare by itself; its looks into a tensor are noticed one by one."""
    if value is None or _is_theirs(value) or callable(value):
        return False
    kind = kind_of(value)
    return kind is None or not kind.watched


def _is_theirs(value: Any) -> bool:
    return isinstance(type(value), RemoteClass) or isinstance(value, RemoteObject | RemoteClass)
