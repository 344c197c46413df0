"""Which line wrote, when all that is known is that a write came between two events, many lines apart.

A line on which torch was called is an unlikely one: what torch does is seen. Of the rest, those that name the tensor,
or something made of its memory (`address = w.data_ptr()`), come first; then what looks like a write or a call.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from types import FrameType

from seegrad.capture.probes.places import PLAIN, Source, nodes, statements, write_rank
from seegrad.model.recording import Place

LONGEST = 5_000
"""Events whose lines are remembered."""

IDENTIFIER = re.compile(r"[^\W\d]\w*")

HANDS_OUT = frozenset(
    {"numpy", "asarray", "as_array", "data_ptr", "untyped_storage", "from_dlpack", "to_dlpack", "c_void_p", "data"}
)
"""What a line names that hands out memory."""

HARMLESS = frozenset({"print", "len", "repr", "str", "isinstance", "append", "item", "range", "time"})
"""Calls that write nobody's memory."""


At = tuple[str, int, int]
"""Where a function is: its file, its first line, the line that runs."""


class Trail:
    """Where the user's functions were at each event, in order."""

    def __init__(self) -> None:
        self._events: deque[tuple[At, ...]] = deque(maxlen=LONGEST)
        self._count = 0

    def goes_on(self, frames: Iterable[FrameType]) -> int:
        """An event, these functions under way, the outermost first; its number."""
        self._events.append(
            tuple([(each.f_code.co_filename, each.f_code.co_firstlineno, each.f_lineno or 0) for each in frames])
        )
        self._count += 1
        return self._count - 1

    def between(self, first: int, last: int) -> list[tuple[At, ...]]:
        """Those events and all between them, as far back as they're remembered."""
        forgotten = self._count - len(self._events)
        return list(islice(self._events, max(first - forgotten, 0), max(last + 1 - forgotten, 0)))

    def line(self, event: int) -> tuple[str, int] | None:
        """The file and the line on which that event came."""
        at = next(iter(self.between(event, event)), ())
        return (at[-1][0], at[-1][2]) if at else None


def likeliest(source: Source, way: Sequence[tuple[At, ...]], names: Collection[str]) -> Place | None:
    """The line that most likely wrote the tensor of these names, on the way from the first event to the last."""
    called = {(file, line) for at in way for file, _, line in at}
    known = {word for name in names for word in IDENTIFIER.findall(name)}
    of_file = {file: known | _made_of(source.text(file), known) for file, _ in called}
    found = [
        (_unlikeliness(statement, _calls(file, statement, called), of_file[file]), order, file, statement.lineno)
        for order, (file, statement) in enumerate(_passed(source, way))
    ]
    return source.at(*min(found)[2:]) if found else None


def _passed(source: Source, way: Sequence[tuple[At, ...]]) -> Iterator[tuple[str, ast.stmt]]:
    """The statements that may have run, each once, in the order in which the way first comes to them."""
    told: set[tuple[str, int]] = set()
    stretches = dict.fromkeys(stretch for before, now in pairwise(way) for stretch in _stretches(source, before, now))
    for file, first, last in stretches:
        for statement in statements(source.text(file), first, last):
            if (file, statement.lineno) not in told:
                told.add((file, statement.lineno))
                yield file, statement


def _stretches(source: Source, before: tuple[At, ...], now: tuple[At, ...]) -> Iterator[tuple[str, int, int]]:
    """(file, first line, the line after the last) of what ran from one event to the next, the innermost first."""
    were, are = ({(file, start): line for file, start, line in at} for at in (before, now))
    for (file, start), line in reversed(were.items()):
        after = are.get((file, start), line)
        if after > line:
            yield file, line, after
            continue
        first, last = _loop_around(source.text(file), after, line) if after < line else (line, line + 1)
        yield file, line, last
        yield file, first, after
    for (file, start), line in reversed(are.items()):
        if (file, start) not in were:
            yield file, start + 1, line


def _loop_around(text: str, first: int, last: int) -> tuple[int, int]:
    """The first line in the innermost loop that holds both lines, and the line after it; of none the lines themselves.

    >>> _loop_around("for x in y:\\n    a = 1\\n    b = 2\\n    c = 3\\n", 2, 3)
    (2, 5)
    """
    around = [
        (each.body[0].lineno, (each.body[-1].end_lineno or last) + 1)
        for each in nodes(text)
        if isinstance(each, ast.For | ast.AsyncFor | ast.While)
    ]
    return max((each for each in around if each[0] <= first and last < each[1]), default=(first, last + 1))


def _calls(file: str, statement: ast.stmt, called: Collection[tuple[str, int]]) -> bool:
    """True where torch was called by the statement."""
    return any((file, line) in called for line in range(statement.lineno, (statement.end_lineno or 0) + 1))


def _unlikeliness(statement: ast.stmt, torch_ran: bool, known: Collection[str]) -> tuple[int, bool, int]:
    words, rank = _words(statement), write_rank(statement)
    strange = words.isdisjoint(known)
    writes = rank < PLAIN or any(isinstance(each, ast.Call) for each in ast.walk(statement))
    kind = 3 if not writes or not HARMLESS.isdisjoint(words) else 2 if torch_ran and strange else int(torch_ran)
    return kind, strange, rank


def _made_of(text: str, known: Collection[str]) -> set[str]:
    """The variables that hold memory of those that are known: `address = w.data_ptr()`."""
    return {
        target.id
        for each in nodes(text)
        if isinstance(each, ast.Assign)
        and not HANDS_OUT.isdisjoint(words := _words(each.value))
        and not words.isdisjoint(known)
        for target in each.targets
        if isinstance(target, ast.Name)
    }


def _words(tree: ast.AST) -> set[str]:
    """All names in it."""
    return {
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(tree)
        if isinstance(each, ast.Name | ast.Attribute)
    }
