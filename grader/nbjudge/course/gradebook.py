"""nbgrader's gradebook → Assignment and standings, Result → gradebook: one transaction a submission. The only writer.

Everything goes through nbgrader's own Gradebook, with its many commits deferred to one, so that a run killed at any
moment leaves each submission recorded as a whole or not at all.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from nbgrader.api import BaseCell, Gradebook, InvalidEntry, MissingEntry
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy import Column, MetaData, String, Table, delete, event, func, insert, select
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from traitlets.config import Config

from nbjudge.course.intake import moment
from nbjudge.course.layout import Course
from nbjudge.errors import BusyError, CourseError, DiskFull, GradebookError
from nbjudge.model import Assignment, Graded, Limits, Notebook, Result, SourceCell

LOCK = 0x5EE6  # of a PostgreSQL database, as its advisory locks are named: by a number
BUSY_MS = 30_000  # how long to wait for another writer, formgrader for one
APPLIED = Table(  # which Result the grades of a submission came from
    "grader_applied",
    MetaData(),
    Column("student", String(128), primary_key=True),
    Column("assignment", String(128), primary_key=True),
    Column("result_key", String(64), nullable=False),
)


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


class Record:
    """An open gradebook. Use it as a context manager, from one thread."""

    def __init__(self, course: Course, config: Config | None = None) -> None:
        self._course = course
        self._alone: Connection | None = None  # holds a server's lock
        self._refuse_missing_database()
        with _in_our_words():
            self._gradebook = Gradebook(course.db_url, course.course_id)
            self._session = self._gradebook.db
            _one_writer_at_a_time(self._gradebook.engine)
            self._commit = self._session.commit
            self._session.commit = self._session.flush  # nbgrader commits up to 18 times a submission
            with self._transaction():
                APPLIED.create(self._session.connection(), checkfirst=True)
        self._penalties = AssignLatePenalties(config=config or Config())
        self._penalties.init_plugin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._alone is not None:
            self._alone.close()
        self._gradebook.close()
        self._gradebook.engine.dispose()

    def hold_alone(self) -> None:
        """No other grader writes to this gradebook until it is closed, on whatever machine it runs.

        Raises `BusyError`. A gradebook that is a file is held by its course's folder (`nbjudge.course.layout`).
        """
        if self._gradebook.engine.dialect.name != "postgresql":
            return
        with _in_our_words():
            alone = self._gradebook.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if not alone.execute(select(func.pg_try_advisory_lock(LOCK))).scalar():
                alone.close()
                raise BusyError("another grader is at work on the same gradebook. Wait until it has ended")
            self._alone = alone

    def _refuse_missing_database(self) -> None:
        url = make_url(self._course.db_url)
        if url.drivername.startswith("sqlite") and not Path(url.database or "").is_file():
            raise CourseError(f"there is no gradebook at {url.database}; run `nbgrader generate_assignment NAME` first")

    def assignment(self, name: str, seed: int, limits: Limits | None = None) -> Assignment:
        """What nbgrader's rows say of an assignment. Raises `CourseError` where it was never generated."""
        with _in_our_words():
            try:
                rows = self._gradebook.find_assignment(name)
            except MissingEntry:
                rows = None
            if rows is None or not rows.notebooks:
                raise CourseError(
                    f"the gradebook knows no assignment {name!r}; run `nbgrader generate_assignment {name}` first"
                )
            notebooks = tuple(self._notebook(notebook, name) for notebook in rows.notebooks)
            self._session.rollback()
        return Assignment(name, notebooks, seed, limits or Limits(), self._course.own_files(name))

    def _notebook(self, row: Any, assignment: str) -> Notebook:
        cells = _cells(row)
        path = self._course.folder(self._course.source, ".", assignment) / f"{row.name}.ipynb"
        order = {grade_id: place for place, grade_id in enumerate(_order(path))}
        in_order = sorted(cells, key=lambda cell: order.get(cell.grade_id, len(order)))
        return Notebook(row.name, row.kernelspec or "{}", tuple(in_order))

    def knows_student(self, student: str) -> bool:
        """Whether the gradebook has that student."""
        try:
            self._gradebook.find_student(student)
        except MissingEntry:
            return False
        finally:
            self._session.rollback()
        return True

    def applied(self, assignment: str) -> dict[str, str]:
        """student → key of the Result that their grades came from."""
        wanted = select(APPLIED.c.student, APPLIED.c.result_key).where(APPLIED.c.assignment == assignment)
        with _in_our_words():
            found: dict[str, str] = dict(self._session.execute(wanted).all())
            self._session.rollback()
        return found

    def standings(self, assignment: str) -> list[Standing]:
        """Where every student stands."""
        with _in_our_words():
            found = list(standings(self._gradebook, assignment))
            self._session.rollback()
        return found

    def write(self, result: Result) -> None:
        """Grades, comments, penalty and key of one submission, all or nothing.

        What an earlier submission had earned is reset; what a person wrote stays, marked to be looked at again.
        Raises `GradebookError`.
        """
        with _in_our_words():
            try:
                self._write(result)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                self._write(result)  # the server went away: once more, over a new connection

    def _write(self, result: Result) -> None:
        with self._transaction():
            submission = self._submission(result)
            graded = {notebook.name: notebook for notebook in result.notebooks}
            for notebook in submission.notebooks:
                _grade(notebook, graded.get(notebook.name), self._names(notebook))
                notebook.late_submission_penalty = self._penalty(submission, notebook, graded.get(notebook.name))
            self._remember(result)

    def _names(self, notebook: Any) -> Mapping[int, str]:
        """The cells of a notebook by number: asked at once, where nbgrader's own rows would ask for each."""
        wanted = select(BaseCell.id, BaseCell.name).where(BaseCell.notebook_id == notebook.notebook_id)
        return dict(self._session.execute(wanted).all())

    def _submission(self, result: Result) -> Any:
        self._gradebook.update_or_create_student(result.student)
        fields = {} if (when := moment(result.timestamp)) is None else {"timestamp": when}
        with self._session.no_autoflush:  # nbgrader links new rows before it adds them; SQLAlchemy would warn
            return self._gradebook.update_or_create_submission(result.assignment, result.student, **fields)

    def _penalty(self, submission: Any, notebook: Any, graded: Graded | None) -> float | None:
        """What nbgrader's late plugin takes off, bounded as nbgrader bounds it."""
        notebook.late_submission_penalty = None
        if graded is None or graded.missing or submission.assignment.duedate is None:
            return None
        self._session.flush()
        self._session.refresh(notebook)
        seconds_late = submission.total_seconds_late
        if seconds_late <= 0:
            return None
        penalty = self._penalties.plugin_inst.late_submission_penalty(
            submission.student.id, notebook.score, seconds_late
        )
        return None if penalty is None else float(self._penalties._check_late_penalty(notebook, penalty))

    def _remember(self, result: Result) -> None:
        where = (APPLIED.c.student == result.student, APPLIED.c.assignment == result.assignment)
        self._session.execute(delete(APPLIED).where(*where))
        row = {"student": result.student, "assignment": result.assignment, "result_key": result.key}
        self._session.execute(insert(APPLIED).values(row))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            yield
            self._session.flush()
            self._commit()
        except BaseException:
            self._session.rollback()
            raise
        finally:
            self._session.expunge_all()


def _cells(row: Any) -> list[SourceCell]:
    """nbgrader's four tables of cells, joined by name."""
    grades = {cell.name: cell.max_score for cell in row.grade_cells}
    tasks = {cell.name: cell.max_score for cell in row.task_cells}
    solutions = {cell.name for cell in row.solution_cells}
    return [
        SourceCell(
            grade_id=cell.name,
            cell_type=cell.cell_type,
            source=cell.source or "",
            checksum=cell.checksum,
            points=float(grades.get(cell.name, tasks.get(cell.name, 0.0))),
            grade=cell.name in grades,
            solution=cell.name in solutions,
            locked=bool(cell.locked),
            task=cell.name in tasks,
        )
        for cell in row.source_cells
    ]


def _order(path: Path) -> list[str]:
    """The grade_ids as the source notebook has them; the database promises no order. Empty where there is none."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return [cell["metadata"]["nbgrader"]["grade_id"] for cell in cells if "nbgrader" in cell["metadata"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _grade(notebook: Any, graded: Graded | None, names: Mapping[int, str]) -> None:
    """nbgrader's meaning of each field; a question without a verdict waits for a person and is never zero."""
    points: Mapping[str, float | None] = (
        {} if graded is None else {outcome.grade_id: outcome.points for outcome in graded.outcomes}
    )
    missing = graded is not None and graded.missing
    for grade in notebook.grades:
        grade.auto_score = points.get(names[grade.cell_id])
        waits = grade.manual_score is not None or grade.auto_score is None
        grade.needs_manual_grade = waits and not missing
    comments = {} if graded is None else graded.comments
    for comment in notebook.comments:
        comment.auto_comment = comments.get(names[comment.cell_id])


def _one_writer_at_a_time(engine: Any) -> None:
    """SQLite: take the lock when a transaction begins, and wait for it, instead of failing half-way."""
    if engine.dialect.name != "sqlite":
        return

    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")

    def begins(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    engine.dispose()
    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begins)


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, InvalidEntry) as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        if "disk is full" in reason or "No space left" in reason:
            raise DiskFull(
                f"the gradebook can't be written: {reason}. Make room and run the same command again"
            ) from error
        advice = "Back it up; if nbgrader was updated, run `nbgrader db upgrade`"
        if "readonly" in reason or "read-only" in reason:
            advice = "Give this user the right to write to it and to its folder"
        raise GradebookError(f"the gradebook can't be used: {reason}. {advice}") from error


# --- where everybody stands: nbgrader's gradebook, read --------------------------------------------------------------


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
