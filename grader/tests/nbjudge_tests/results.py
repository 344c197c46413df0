"""A Result of the small course, and what the gradebook then holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nbgrader.api import Gradebook

from nbjudge.course.layout import Course
from nbjudge.model import Ending, Graded, Outcome, Result
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
