"""`nbgrader validate`: what it can know. It runs the visible tests; hidden ones aren't in a release.

JupyterLab's button shows words of its own, which are nbgrader's; in a terminal they are these.
"""

from __future__ import annotations

from typing import Any

from nbgrader import utils
from nbgrader.validator import Validator

from nbjudge.course.authoring import of_checks
from nbjudge.shown.text import counted

SAID = (
    "The visible tests pass: {questions}, worth {points}. Hidden tests, which may ask for more, run when it is graded"
)
AUTHOR_S = "BEGIN SOLUTION", "BEGIN HIDDEN TESTS"  # no release has them
BY_HAND = "; a person reads {answers}, worth {points}"


class VisibleTests(Validator):  # type: ignore[misc]  # nbgrader ships no types
    """nbgrader's Validator, which says how many points it has seen and what it hasn't; an author is told of checks."""

    def _preprocess(self, nb: Any) -> Any:
        written = any(mark in cell.source for cell in nb.cells for mark in AUTHOR_S)
        self._remarks = of_checks("", nb.cells) if written else []
        done = super()._preprocess(nb)
        graded = [cell for cell in done.cells if utils.is_grade(cell)]
        self._by_hand = [float(cell.metadata.nbgrader.points) for cell in graded if utils.is_solution(cell)]
        self._tests = [float(cell.metadata.nbgrader.points) for cell in graded if not utils.is_solution(cell)]
        return done

    def _print_num_failed(self, num_failed: int) -> None:
        if num_failed:
            super()._print_num_failed(num_failed)
            return
        said = SAID.format(questions=counted(len(self._tests), "question"), points=counted(sum(self._tests), "point"))
        if self._by_hand:
            answers, points = counted(len(self._by_hand), "answer"), counted(sum(self._by_hand), "point")
            said += BY_HAND.format(answers=answers, points=points)
        self.stream.write("".join(f"{line}\n" for line in (f"{said}.", *(one.said for one in self._remarks))))
