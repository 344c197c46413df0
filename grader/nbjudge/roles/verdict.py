"""In the judge: one test cell, its exception or its last value → what is to be said about it."""

from __future__ import annotations

import math
import numbers
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from nbjudge.bridge.objects import RemoteClass
from nbjudge.bridge.peer import STUDENT
from nbjudge.bridge.standing import Stand
from nbjudge.bridge.values import UnsupportedError
from nbjudge.bridge.values.table import kind_of
from nbjudge.shown.text import counted, printable

LINES = 6
LINE_CHARS = 300
HIDDEN = re.compile(r"BEGIN HIDDEN TESTS(.*?)END HIDDEN TESTS|BEGIN HIDDEN TESTS(.*)\Z", re.DOTALL)
SCORE = ("seegrad.check", "score")
NO_SCORE = (
    "The test's last expression is {reached:g}, and a score is from 0 to {points:g}: this question isn't graded. Its "
    "author has to mend it, or to end the line with a semicolon if it isn't a score."
)
NOT_A_NUMBER = (
    "The score of this question came out as {kind} instead of a number: an answer gave something that can't be counted."
)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the judge says of one test cell; `fraction` is None where the grader itself failed."""

    fraction: float | None
    message: str = ""
    name: str = ""  # of the exception
    misconceptions: tuple[str, ...] = ()
    hidden: bool = False  # does the message tell of a hidden line?
    reproduce: str = ""  # the failing case as code
    line: int = 0  # of the test cell, where it failed: for its author alone where it is hidden
    waits: bool = False  # a person has to look; `fraction` is None then


def of_stranger(standing: Stand) -> Ruling:
    """A test used what stands in no role at its place."""
    if standing.waits:
        return Ruling(None, clipped(standing.sentence), waits=True)
    return Ruling(0.0, clipped(standing.sentence))


def of_value(value: Any, points: float = 1.0, *, scores: bool = False) -> Ruling:
    """A cell that ended well: full points, unless its last expression is a score.

    A `seegrad.check.score` is a fraction; any other number is of points, as nbgrader's `determine_grade` reads it.
    `scores`: the reference's last expression is a number, so an answer's that is none has made nonsense of it.

    >>> of_value("well done").fraction, of_value(1.5, points=2).fraction, of_value(3, points=2).fraction
    (1.0, 0.75, None)
    """
    if (type(value).__module__, type(value).__name__) != SCORE or not isinstance(value, float):
        return _of_number(value, points, scores=scores)
    fraction = float(value)
    fraction = 0.0 if math.isnan(fraction) else min(max(fraction, 0.0), 1.0)
    if fraction == 1.0:
        return Ruling(fraction)
    said = getattr(value, "message", "")
    message = clipped(said) if isinstance(said, str) and said else f"{fraction:.0%} of this question is right."
    return Ruling(fraction, message, "", _misconceptions(value))


def _of_number(value: Any, points: float, *, scores: bool) -> Ruling:
    reached = number(value)
    if reached is None:
        return Ruling(0.0, NOT_A_NUMBER.format(kind=type(value).__name__[:80])) if scores else Ruling(1.0)
    if not 0 <= reached <= points:
        return Ruling(None, NO_SCORE.format(reached=reached, points=points))
    if reached == points:
        return Ruling(1.0)
    return Ruling(reached / points, f"{reached:g} of {counted(points, 'point')}.")


def number(value: Any) -> float | None:
    """The points that a last expression says, if it is a number: Python's, NumPy's, or the one item of an array.

    nbgrader reads what is shown of it, so there a `np.float64(0.0)` or a `Fraction` is no score but full points. A
    truth value is none here either.

    >>> from fractions import Fraction
    >>> number(0.5), number(Fraction(1, 2)), number(True), number("0.5"), number(None)
    (0.5, 0.5, None, None, None)
    """
    if isinstance(type(value), RemoteClass) or type(value).__module__ == STUDENT:
        return None
    if kind_of(value) is not None and math.prod(getattr(value, "shape", (0,))) == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def of_exception(error: BaseException, source: str, filename: str) -> Ruling:
    """A cell that raised: no points and why, in at most six lines, without a line of the hidden tests."""
    if isinstance(error, UnsupportedError):
        return Ruling(None, unsupported(str(error)))
    if type(error).__module__ == STUDENT:
        return Ruling(0.0, _plainly(error, source, filename), type(error).__name__)
    if isinstance(error, SyntaxError) and error.filename == filename:
        return Ruling(None, "The test cell isn't valid Python; its author has to repair it.")
    if isinstance(error, ImportError):
        return Ruling(None, f"The test cell needs something that isn't installed where it was graded: {error}")
    rendered = _rendered(error)
    message = rendered if rendered is not None else _plainly(error, source, filename)
    return Ruling(0.0, message, type(error).__name__, _misconceptions(error))


def unsupported(what: str) -> str:
    """The sentence for a value that the grader can't carry from one process to the other, whichever has it."""
    return (
        f"The test and the answer would exchange {what}. The grader can't carry that from one to the other, so this "
        "question isn't graded."
    )


def _rendered(error: BaseException) -> str | None:
    """An exception that knows how to show itself does so."""
    render = getattr(error, "_render_traceback_", None)
    if render is None:
        return None
    try:
        return clipped("\n".join(map(str, render())))
    except Exception:  # then it is shown like any other
        return None


def _plainly(error: BaseException, source: str, filename: str) -> str:
    said = str(error).strip()
    if isinstance(error, AssertionError) and not said:
        line = visible_line(error, source, filename)
        return clipped(f"This doesn't hold:\n    {line}" if line else "A check of this question doesn't hold.")
    return clipped(f"{type(error).__name__}: {said}" if said else type(error).__name__)


def visible_line(error: BaseException, source: str, filename: str) -> str | None:
    """The line of the test cell that failed, when it isn't one of the hidden tests."""
    numbers = [
        number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == filename
    ]
    lines = source.splitlines()
    if not numbers or not 0 < numbers[0] <= len(lines) or numbers[0] in hidden_lines(source):
        return None
    return lines[numbers[0] - 1].strip()


def hidden_lines(source: str) -> set[int]:
    """The numbers of the lines that only the instructor may see.

    >>> sorted(hidden_lines("a\\n### BEGIN HIDDEN TESTS\\nb\\n### END HIDDEN TESTS\\nc"))
    [2, 3, 4]
    """
    hidden: set[int] = set()
    for found in HIDDEN.finditer(source):
        first = source.count("\n", 0, found.start()) + 1
        hidden.update(range(first, source.count("\n", 0, found.end()) + 2))
    return hidden


def clipped(text: str) -> str:
    """At most six lines that aren't empty, none of them long, no control characters."""
    lines = [line.rstrip() for line in printable(text).splitlines() if line.strip()]
    return "\n".join(line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…" for line in lines[:LINES])


def _misconceptions(said: object) -> tuple[str, ...]:
    """What an exception or a score of the judge's own names; no class of the student's exists in this process."""
    named = getattr(said, "misconceptions", ())
    if type(said).__module__ not in sys.modules or not isinstance(named, tuple | list | frozenset | set):
        return ()
    return tuple(sorted(str(name)[:40] for name in named))[:12]


# -- the words for a place, and for what stands or was expected there

NAMED: Mapping[str, str] = {"Tensor": "a tensor", "ndarray": "an array", "NoneType": "nothing", "int": "an int"}


def where(places: tuple[str, ...]) -> str:
    """The words for a place, up to what stands there.

    >>> where(("softplus()",)), where(("<Net>.weight",)), where(("f()[]",)), where(())
    ('softplus returned', 'weight of Net is', 'f returned, inside,', 'the answer gave')
    """
    place = places[0] if places else ""
    inside = ", inside," if place.endswith("[]") else ""
    place = place.rstrip("[]<~!")
    verb = "returned" if place.endswith("()") else "is"
    owner, _, member = place.removesuffix("()").rpartition(">.")
    name = f"{member} of {owner[1:]}" if owner.startswith("<") else place.removesuffix("()")
    return f"{name} {verb}{inside}".replace("()!.", "'s error's ") if name else "the answer gave"


def expected(roles: frozenset[str]) -> str:
    """The words for what the reference answer showed."""
    found = [a(role.removeprefix("data ")) for role in sorted(roles) if role.startswith("data ")]
    found += ["something to call"] * ("call" in roles) + ["an iterator"] * ("iterator" in roles)
    found += ["an object that was asked for"] * ("object" in roles)
    return " or ".join(found) or "data"


def a(name: str) -> str:
    """A name with its article.

    >>> a("Tensor"), a("float"), a("Element"), a("NoneType")
    ('a tensor', 'a float', 'an Element', 'nothing')
    """
    return NAMED.get(name) or f"{'an' if name[:1] in 'AEIOaeio' else 'a'} {name}"
