"""nbgrader's gradebook, read: where each submission of an assignment stands. Writes nothing."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nbgrader.api import Gradebook


class State(enum.StrEnum):
    """How far the grading of a submission is."""

    GRADED = "graded"
    WAITS = "waiting for a person"
    NOT_GRADED = "not graded"  # refused, or the grader itself failed: no question has a score
    NOT_HANDED_IN = "not handed in"


@dataclass(frozen=True, slots=True)
class Score:
    """One question of one submission, as the gradebook holds it."""

    notebook: str
    grade_id: str
    auto: float | None
    manual: float | None
    extra: float
    max_points: float
    waits: bool

    @property
    def points(self) -> float | None:
        """What counts: a person's score before the grader's; None where there is neither."""
        counted = self.auto if self.manual is None else self.manual
        return None if counted is None else counted + self.extra


@dataclass(frozen=True, slots=True)
class Standing:
    """One student and one assignment. Times are UTC, as nbgrader keeps them."""

    student: str
    assignment: str
    scores: tuple[Score, ...] = ()
    penalty: float = 0.0
    timestamp: Any = None
    handed_in: bool = True

    @property
    def state(self) -> State:
        """Whether the points are all there is to say."""
        if not self.handed_in:
            return State.NOT_HANDED_IN
        if self.scores and all(score.points is None for score in self.scores):
            return State.NOT_GRADED
        return State.WAITS if any(score.waits for score in self.scores) else State.GRADED

    @property
    def raw_points(self) -> float:
        """Before the penalty for lateness; what has no score yet counts nothing."""
        return sum(score.points or 0.0 for score in self.scores)

    @property
    def points(self) -> float:
        """After it."""
        return max(0.0, self.raw_points - self.penalty)


def standings(gradebook: Gradebook, assignment: str) -> Iterator[Standing]:
    """Every student that the gradebook knows, by name."""
    submitted = {row.student.id: row for row in gradebook.assignment_submissions(assignment)}
    for student in sorted(gradebook.students, key=lambda row: str(row.id)):
        if student.id in submitted:
            yield _standing(submitted[student.id], assignment)
        else:
            yield Standing(student.id, assignment, handed_in=False)


def _standing(row: Any, assignment: str) -> Standing:
    scores = [_score(notebook.name, grade) for notebook in row.notebooks for grade in notebook.grades]
    penalty = sum(notebook.late_submission_penalty or 0.0 for notebook in row.notebooks)
    return Standing(row.student.id, assignment, tuple(scores), penalty, row.timestamp)


def _score(notebook: str, grade: Any) -> Score:
    return Score(
        notebook,
        grade.name,
        grade.auto_score,
        grade.manual_score,
        grade.extra_credit or 0.0,
        float(grade.max_score),
        bool(grade.needs_manual_grade),
    )


def found(all_standings: Sequence[Standing], student: str) -> Standing | None:
    """That student's."""
    return next((standing for standing in all_standings if standing.student == student), None)
