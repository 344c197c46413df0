"""What is seen of one run of a test, and what differs between plain and recorded runs of it."""

from __future__ import annotations

import fnmatch
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

ASPECTS = ("outcome", "text", "bits", "random", "alive", "logged")
"""What two runs are compared by, the plainest first."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one test, as data."""

    outcome: str
    """"passed", "skipped", "failed: AssertionError", "crashed: SIGABRT", "hung" …"""
    text: str = ""
    """What the error said, without addresses."""
    bits: tuple[str, ...] = ()
    """Hashes, in order: of the gradients of each backward, of each tensor that the test compared."""
    random: str = ""
    """Where the random generators stood when the body ended."""
    alive: tuple[tuple[str, int], ...] = ()
    """Objects of each kind that outlived the test."""
    logged: tuple[str, ...] = ()
    """What seegrad logged, and errors that nobody could catch."""
    seconds: float = 0.0

    @property
    def ended(self) -> bool:
        """False where the process died or was ended: nothing but that is known."""
        return not self.outcome.startswith(("crashed", "exited", "hung"))

    def compared(self, aspect: str) -> Any:
        """What of an aspect has to be equal.

        Of what is alive: whether anything of a kind is, not how much. Where torch itself leaks a graph, one more of its
        tensors and Nodes may have been seen by Python.

        >>> Run("passed", alive=(("Node", 1), ("tensor", 7))).compared("alive")
        ('graph',)
        """
        if aspect != "alive":
            return getattr(self, aspect)
        return tuple(sorted({"graph" if kind in ("Node", "tensor") else kind for kind, _ in self.alive}))

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Run:
        """A run from JSON, where tuples are lists."""
        named = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        for name in ("bits", "logged"):
            named[name] = tuple(named.get(name, ()))
        named["alive"] = tuple((kind, count) for kind, count in named.get("alive", ()))
        return cls(**named)


@dataclass(frozen=True, slots=True)
class Difference:
    """One aspect in which recording changed a test."""

    aspect: str
    plain: str
    recorded: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """One test, judged."""

    test: str
    """`folder/test_file.py::Class.method`."""
    outcome: str
    """Its outcome without recording."""
    differences: tuple[Difference, ...]
    unsteady: tuple[str, ...]
    """Aspects in which the plain runs, or the recorded ones, differ among themselves: nothing can be said of them."""
    plain_s: float
    recorded_s: float
    why: str = ""
    """From the written list: why it can't be equal."""

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Verdict:
        """A verdict from JSON, where tuples are lists and a Difference is an object."""
        differences = tuple(Difference(**each) for each in data["differences"])
        return cls(**{**data, "differences": differences, "unsteady": tuple(data["unsteady"])})


def judge(test: str, plain: Sequence[Run], recorded: Sequence[Run]) -> Verdict:
    """Compare all runs of a test: a difference is one that every pair shows, between sides that agree in themselves.

    >>> once, again = Run("passed", bits=("a",)), Run("passed", bits=("b",))
    >>> judge("t", [once, once], [again, again]).differences
    (Difference(aspect='bits', plain='a', recorded='b'),)
    >>> judge("t", [once, again], [again, once]).unsteady
    ('bits',)
    """
    differences, unsteady = [], []
    ended = all(run.ended for run in (*plain, *recorded))
    for aspect in ASPECTS if ended else ("outcome",):
        here, there = ({run.compared(aspect) for run in side} for side in (plain, recorded))
        if here == there and len(here) == 1:
            continue
        if len(here) == 1 and not here & there:
            differences.append(Difference(aspect, *told(getattr(plain[-1], aspect), getattr(recorded[-1], aspect))))
        else:
            unsteady.append(aspect)
    plain_s, recorded_s = (min(run.seconds for run in side) for side in (plain, recorded))
    return Verdict(test, plain[-1].outcome, tuple(differences), tuple(unsteady), plain_s, recorded_s)


def told(plain: Any, recorded: Any) -> tuple[str, str]:
    """Both in words: of sequences the first part that isn't the same.

    >>> told(("a", "b", "c"), ("a", "x"))
    ('b, 1 more', 'x')
    >>> told("one", "two")
    ('one', 'two')
    """
    if isinstance(plain, str) or isinstance(recorded, str):
        return str(plain), str(recorded)
    pairs = zip(plain, recorded, strict=False)
    same = next((n for n, (one, two) in enumerate(pairs) if one != two), min(len(plain), len(recorded)))
    return _from(plain, same), _from(recorded, same)


def _from(parts: Sequence[Any], start: int) -> str:
    if start >= len(parts):
        return "nothing"
    part = parts[start]
    first = part if isinstance(part, str) else " ".join(map(str, part))
    return first + (f", {len(parts) - start - 1} more" if len(parts) - start > 1 else "")


@dataclass(frozen=True, slots=True)
class Unequal:
    """An entry of the written list: tests that can't be equal, and why."""

    tests: str
    """A pattern: `test_autograd.py::TestAutograd.test_profiler*`."""
    aspects: tuple[str, ...]
    why: str
    modes: tuple[str, ...] = ()
    """In these modes; in all where none is named."""

    def covers(self, verdict: Verdict, mode: str) -> bool:
        """True where it says all that differs."""
        here = not self.modes or mode in self.modes
        named = fnmatch.fnmatchcase(verdict.test, self.tests)
        return here and named and {each.aspect for each in verdict.differences} <= set(self.aspects)


def written_list(path: Path) -> tuple[Unequal, ...]:
    """The entries of a TOML file."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("unequal", [])
    return tuple(
        Unequal(each["tests"], tuple(each["aspects"]), each["why"], tuple(each.get("modes", ()))) for each in entries
    )


def explained(verdict: Verdict, mode: str, entries: Iterable[Unequal]) -> Verdict:
    """The verdict with what the written list says of it."""
    whys = (each.why for each in entries if each.covers(verdict, mode))
    return replace(verdict, why=next(whys, "") if verdict.differences else "")


@dataclass(frozen=True, slots=True)
class FileCount:
    """The verdicts on one file in one mode, counted."""

    file: str
    mode: str
    tests: int
    skipped: int
    too_slow: int
    """Ended by the clock on both sides: nothing is known of them."""
    equal: int
    listed: int
    differ: int
    unsteady: int
    """Equal where anything can be said: a part of them changes from run to run by itself."""
    slowdown: float
    """All recorded bodies' CPU time over all plain bodies'."""


def counted(verdicts: Iterable[Verdict], mode: str) -> tuple[FileCount, ...]:
    """Verdicts counted by file.

    >>> same = Verdict("f.py::T.a", "passed", (), (), 1, 3)
    >>> other = Verdict("f.py::T.b", "passed", (Difference("bits", "a", "b"),), (), 1, 3)
    >>> [(each.file, each.equal, each.differ, each.slowdown) for each in counted([same, other], "nested")]
    [('f.py', 1, 1, 3.0)]
    """
    files: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        files.setdefault(verdict.test.partition("::")[0], []).append(verdict)
    return tuple(_count(file, mode, found) for file, found in files.items())


def _count(file: str, mode: str, found: Sequence[Verdict]) -> FileCount:
    classes = Counter(classified(verdict) for verdict in found)
    plain, recorded = sum(each.plain_s for each in found), sum(each.recorded_s for each in found)
    return FileCount(
        file, mode, len(found), classes["skipped"], classes["too slow"],
        classes["equal"], classes["listed"], classes["differs"],
        sum(bool(each.unsteady) for each in found), round(recorded / plain, 2) if plain else 0.0,
    )  # fmt: skip


def classified(verdict: Verdict) -> str:
    """ "skipped", "too slow", "equal", "listed" or "differs"."""
    if verdict.differences:
        return "listed" if verdict.why else "differs"
    if verdict.outcome == "hung":
        return "too slow"
    return "skipped" if verdict.outcome.startswith("skipped") else "equal"
