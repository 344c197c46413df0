"""Where everybody stands: nbgrader's gradebook, read by one question for a whole class."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from nbgrader.api import (
    Assignment,
    BaseCell,
    Grade,
    Gradebook,
    Notebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)
from sqlalchemy import select

from nbjudge.course.office.lateness import Lateness, seconds_late
from nbjudge.course.office.tables import extensions


class Stage(enum.StrEnum):
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
    penalties: Mapping[str, float] = field(default_factory=dict)  # notebook → its part of the penalty

    @property
    def state(self) -> Stage:
        """Whether the points are all there is to say."""
        if not self.handed_in:
            return Stage.NOT_HANDED_IN
        if self.scores and all(score.points is None for score in self.scores):
            return Stage.NOT_GRADED
        return Stage.WAITS if any(score.waits for score in self.scores) else Stage.GRADED

    @property
    def raw_points(self) -> float:
        """Before the penalty for lateness; what has no score yet counts nothing."""
        return sum(score.points or 0.0 for score in self.scores)

    @property
    def points(self) -> float:
        """After it."""
        return max(0.0, self.raw_points - self.penalty)


def standings(
    gradebook: Gradebook, assignment: str, student: str | None = None, *, due: Lateness | None
) -> Iterator[Standing]:
    """Every student that the gradebook knows, by name, or this one.

    Of lateness they have what is `due` by the points there are now; without it what was recorded.
    """
    submitted = {one.student: one for one in _submitted(gradebook, assignment, student, due)}
    known = select(Student.id) if student is None else select(Student.id).where(Student.id == student)
    for name in sorted(map(str, gradebook.db.execute(known).scalars())):
        yield submitted.get(name) or Standing(name, assignment, handed_in=False)


def _submitted(gradebook: Gradebook, assignment: str, student: str | None, due: Lateness | None) -> Iterator[Standing]:
    wanted = (
        select(
            SubmittedAssignment.student_id,
            SubmittedAssignment.timestamp,
            Assignment.duedate,
            SubmittedAssignment.extension,
            Notebook.name,
            SubmittedNotebook.late_submission_penalty,
            BaseCell.name,
            Grade,
            Grade.max_score,
        )
        .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
        .outerjoin(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .outerjoin(Notebook, Notebook.id == SubmittedNotebook.notebook_id)
        .outerjoin(Grade, Grade.notebook_id == SubmittedNotebook.id)
        .outerjoin(BaseCell, BaseCell.id == Grade.cell_id)
        .where(Assignment.name == assignment)
        .order_by(SubmittedAssignment.student_id, Notebook.name)
    )
    if student is not None:
        wanted = wanted.where(SubmittedAssignment.student_id == student)
    longer = extensions(gradebook.db, assignment)
    for whose, found in groupby(gradebook.db.execute(wanted).all(), key=lambda row: tuple(row[:4])):
        name, timestamp, duedate, extension = whose
        rows = [row[4:] for row in found]
        scores = tuple(_score(notebook, cell, *graded) for notebook, _, cell, *graded in rows if cell)
        recorded = {notebook: penalty or 0.0 for notebook, penalty, *_ in rows}
        late = seconds_late(timestamp, duedate, extension, longer.get(name))
        penalties = recorded if due is None else {one: _due(due, name, scores, one, late) for one in recorded}
        yield Standing(name, assignment, scores, sum(penalties.values()), timestamp, penalties=penalties)


def _due(due: Lateness, student: str, scores: Sequence[Score], notebook: str, late: float) -> float:
    """What is to be taken off of one notebook."""
    points = sum(score.points or 0.0 for score in scores if score.notebook == notebook)
    return due.taken_off(student, points, late) or 0.0


def _score(notebook: str, cell: str, grade: Any, most: float) -> Score:
    extra, waits = grade.extra_credit or 0.0, bool(grade.needs_manual_grade)
    return Score(notebook, cell, grade.auto_score, grade.manual_score, extra, float(most), waits)


def found(all_standings: Sequence[Standing], student: str) -> Standing | None:
    """That student's."""
    return next((standing for standing in all_standings if standing.student == student), None)
