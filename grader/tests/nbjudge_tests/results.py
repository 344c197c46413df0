"""Results without a run: of the small course, what the gradebook then holds, a judge that runs nothing and counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from nbgrader.api import Gradebook

from nbjudge.course.layout import Course
from nbjudge.model import Assignment, Ending, Executed, Graded, Outcome, Result
from nbjudge_tests.classroom import small

SCORES = {"double_test": 2.0, "area_test": 0.5}


def result(key: str = "k1", scores: dict[str, float | None] = SCORES, **fields: Any) -> Result:
    outcomes = tuple(
        Outcome(name, Ending.PASSED if points else Ending.BY_HAND, points, 2.0) for name, points in scores.items()
    )
    notebooks = (
        Graded("coding", "{}", outcomes, {"double": None, "area": "No response."}),
        Graded("writing", "{}", (Outcome("why", Ending.BY_HAND, None, 3.0),)),
    )
    return replace(Result(key, "ada", small.NAME, None, notebooks), **fields)


def grades(course: Course) -> dict[str, tuple[float | None, float | None, bool]]:
    """grade_id → (auto_score, manual_score, needs_manual_grade) of ada."""
    with Gradebook(course.db_url, course.course_id) as book:
        submission = book.find_submission(small.NAME, "ada")
        rows = [grade for notebook in submission.notebooks for grade in notebook.grades]
        found = {row.name: (row.auto_score, row.manual_score, row.needs_manual_grade) for row in rows}
    book.engine.dispose()
    return found


def name_of_test(cell: Mapping[str, Any]) -> str | None:
    """The grade_id of a test cell."""
    marks = cell["metadata"].get("nbgrader", {})
    return marks["grade_id"] if marks.get("grade") and not marks["solution"] else None


class Counting:
    """Passes every test; counts the coding notebooks, and remembers the seeds."""

    def __init__(self, kind: Ending = Ending.PASSED) -> None:
        self.kind = kind
        self.runs = 0
        self.seeds: set[int] = set()

    @contextmanager
    def __call__(self, _assignment: Assignment) -> Iterator[Any]:
        yield self._judge

    def _judge(self, document: Mapping[str, Any], _files: Mapping[str, bytes], assignment: Assignment) -> Executed:
        tests = [grade_id for cell in document["cells"] if (grade_id := name_of_test(cell))]
        self.runs += bool(tests)
        self.seeds.add(assignment.seed)
        points = None if self.kind is Ending.GRADER_FAILURE else 1.0
        return Executed(document, tuple(Outcome(name, self.kind, points, 1.0, "said") for name in tests))
