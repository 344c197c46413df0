"""The same exercise with other numbers for each student, drawn from who is asked: nothing is stored, nothing is secret.

The draw is a hash, so it is the same on every machine and every Python, in the learner's own kernel and where the
answer is graded. Whoever knows somebody's id can compute that person's numbers, as they could ask for them; a grader
puts its own word for the id into `NBJUDGE_STUDENT`, so nobody is graded by the numbers of somebody else.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from seegrad.words.languages import _

T = TypeVar("T")
GRADED, HUB = "NBJUDGE_STUDENT", "JUPYTERHUB_USER"


def student() -> str:
    """Who is asked: the grader's word, or the learner's own in that variable; else the hub's; else nobody, `""`."""
    return os.environ.get(GRADED) or os.environ.get(HUB) or ""


@dataclass(frozen=True, slots=True)
class Variant:
    """One student's draws for one exercise. Each has a name: asked again, it is the same."""

    student: str
    n: int | str
    seed: str = ""

    def whole(self, name: str, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included.

        >>> variant("ada", 1).whole("k", 2, 9)
        2
        """
        if low > high:
            raise ValueError(_("There is no whole number from {low} to {high}.").format(low=low, high=high))
        return low + self._drawn(name, high - low + 1)

    def one_of(self, name: str, *choices: T) -> T:
        """One of several things: texts, names, numbers.

        >>> variant("ada", 1).one_of("side", "left", "right")
        'right'
        """
        if not choices:
            raise ValueError(_("There is nothing to choose from."))
        return choices[self._drawn(name, len(choices))]

    def shuffled(self, name: str, things: Sequence[T]) -> list[T]:
        """All of them, in an order of this student's own.

        >>> variant("ada", 1).shuffled("rows", "abcd")
        ['b', 'c', 'a', 'd']
        """
        keys = [self._drawn(f"{name} {place}", 1 << 64) for place in range(len(things))]
        return [things[place] for place in sorted(range(len(things)), key=keys.__getitem__)]

    def said(self, **drawn: object) -> str:
        """What was drawn, and for whom, as the learner reads it."""
        values = ", ".join(f"{name} = {value}" for name, value in drawn.items())
        if self.student:
            return _("{values} (yours, {student})").format(values=values, student=self.student)
        hint = _("To hand in, set {variable} to your id in the course, and start again.").format(variable=GRADED)
        return _("{values} (whose, isn't known here)").format(values=values) + f"\n{hint}"

    def _drawn(self, name: str, size: int) -> int:
        """From 0 to below `size`, as good as evenly."""
        key = "\0".join((self.seed, self.student, str(self.n), name))
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest) % size


def variant(student: str, n: int | str, seed: str = "") -> Variant:
    """A student's draws for the exercise `n`. `seed` is the course's: another one draws anew for everybody.

    >>> variant("ada", "03.2", seed="spring").whole("k", 2, 9) == variant("ada", "03.2", seed="spring").whole("k", 2, 9)
    True
    """
    return Variant(student, n, seed)
