"""nbgrader's gradebook → Assignment and standings, Result → gradebook: one transaction a submission. The only writer.

Everything goes through nbgrader's own Gradebook, with its many commits deferred to one, so that a run killed at any
moment leaves each submission recorded as a whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from math import isclose
from pathlib import Path
from typing import Any, Self, TypeVar

from nbgrader.api import Assignment as AssignmentRow
from nbgrader.api import BaseCell, Gradebook, InvalidEntry, MissingEntry, Student, SubmittedAssignment
from sqlalchemy import event, func, select
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from traitlets.config import Config

from nbjudge.course.intake import moment
from nbjudge.course.layout import Course, held_alone
from nbjudge.course.naming import naming, pictures, written
from nbjudge.course.office import tables
from nbjudge.course.office.lateness import Lateness, seconds_late
from nbjudge.course.office.roster import Roster
from nbjudge.course.office.standings import Standing, standings
from nbjudge.course.office.tables import Attempt, Reading
from nbjudge.errors import BusyError, CourseError, DiskFull, GradebookError
from nbjudge.model import Assignment, Graded, Limits, Notebook, Result, SourceCell, digest

T = TypeVar("T")
LOCK = 0x5EE6  # of a PostgreSQL database, as its advisory locks are named: by a number
BUSY_MS = 30_000  # how long to wait for another writer, formgrader for one


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
                tables.METADATA.create_all(self._session.connection())
        self._lateness = Lateness(config or Config())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._alone is not None:
            _let_go(self._alone)
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
            raise CourseError(f"there is no gradebook at {url.database}; run `nbjudge generate NAME` first")

    def assignment(self, name: str, seed: int, limits: Limits | None = None) -> Assignment:
        """What nbgrader's rows say of an assignment. Raises `CourseError` where it was never generated."""
        with _in_our_words():
            try:
                rows = self._gradebook.find_assignment(name)
            except MissingEntry:
                rows = None
            if rows is None or not rows.notebooks:
                raise self._course.unknown(name, self.notebooks())
            notebooks = tuple(self._notebook(notebook, name) for notebook in rows.notebooks)
            self._session.rollback()
        return Assignment(name, notebooks, seed, limits or Limits(), self._course.own_files(name))

    def _notebook(self, row: Any, assignment: str) -> Notebook:
        source = _source(self._course.folder(self._course.source, ".", assignment) / f"{row.name}.ipynb")
        order = {grade_id: place for place, grade_id in enumerate(_order(source))}
        in_order = tuple(sorted(_cells(row), key=lambda cell: order.get(cell.grade_id, len(order))))
        cells = written(in_order, source)
        whose = naming(cells, complete=source is not None)
        return Notebook(row.name, row.kernelspec or "{}", in_order, whose, tuple(pictures(cells)))

    def knows_student(self, student: str) -> bool:
        """Whether the gradebook has that student."""
        try:
            self._gradebook.find_student(student)
        except MissingEntry:
            return False
        finally:
            self._session.rollback()
        return True

    def notebooks(self) -> dict[str, set[str]]:
        """assignment → the names of its notebooks, for those that were generated."""
        rows = self._read(lambda: [(str(one.name), one.notebooks) for one in self._gradebook.assignments])
        return {name: {str(book.name) for book in books} for name, books in rows if books}

    def rows(self, assignment: str) -> set[str] | None:
        """The notebooks of an assignment: none where it is only planned; None where nobody has heard of it."""
        every = self._read(
            lambda: {str(one.name): {str(book.name) for book in one.notebooks} for one in self._gradebook.assignments}
        )
        return every.get(assignment)

    def ungenerate(self, assignment: str, *, planned: bool) -> None:
        """Take back the rows of an assignment that never was one; `planned`: its name and date were there before."""
        made = self.rows(assignment) or ()
        with _in_our_words(), self._transaction():
            for book in made:
                self._gradebook.remove_notebook(book, assignment)
            if not planned:
                self._gradebook.remove_assignment(assignment)

    def students(self) -> list[str]:
        """The ids of all that the gradebook knows."""
        return self._read(lambda: [str(student.id) for student in self._gradebook.students])

    def handed_in(self) -> set[str]:
        """Who has handed anything in, graded or not yet."""

        def found() -> set[str]:
            names = [str(one.name) for one in self._gradebook.assignments]
            graded = map(str, self._session.execute(select(SubmittedAssignment.student_id)).scalars())
            return {*graded, *(student for name in names for student, _ in self._course.submissions(name))}

        return self._read(found)

    def applied(self, assignment: str) -> dict[str, str]:
        """student → key of the Result that their grades came from."""
        return self._read(lambda: tables.applied(self._session, assignment))

    def standings(self, assignment: str, *, recorded: bool = False) -> list[Standing]:
        """Where every student stands, by what is due for lateness now, or by what was `recorded` of it last."""
        due = None if recorded else self._lateness
        return self._read(lambda: list(standings(self._gradebook, assignment, due=due)))

    def standing(self, student: str, assignment: str, *, recorded: bool = False) -> Standing | None:
        """Where this one stands; None where the gradebook doesn't know them."""
        due = None if recorded else self._lateness
        return self._read(lambda: next(standings(self._gradebook, assignment, student, due=due), None))

    def attempts(self, assignment: str) -> list[Attempt]:
        """What each student has handed in so far, as often as it was another text."""
        return self._read(lambda: list(tables.attempts(self._session, assignment)))

    def _read(self, wanted: Callable[[], T]) -> T:
        with _in_our_words():
            try:
                return wanted()
            finally:
                self._session.rollback()

    def write(self, result: Result, content: str = "") -> None:
        """Grades, comments, penalty and key of one submission, all or nothing; `content` is the digest of its text.

        What an earlier submission had earned is reset. What a person wrote stays, and is to be looked at again where
        the answer's text has changed. Raises `GradebookError`.
        """
        with _in_our_words():
            try:
                self._write(result, content)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                self._write(result, content)  # the server went away: once more, over a new connection

    def _write(self, result: Result, content: str) -> None:
        whose = (result.student, result.assignment)
        with self._transaction():
            submission = self._submission(result)
            graded = {notebook.name: notebook for notebook in result.notebooks}
            known, kept = tables.readings(self._session, *whose), {}
            for notebook in submission.notebooks:
                names, mine = self._names(notebook), graded.get(notebook.name)
                for grade in notebook.grades:
                    where = (notebook.name, names[grade.cell_id])
                    kept[where] = _read_by(grade, known.get(where, Reading()), _text(result, mine, where[1]))
                _grade(notebook, mine, names, kept)
                taken_off = self._taken_off(submission, notebook)
                absent = mine is None or mine.missing
                notebook.late_submission_penalty = taken_off or None if absent else taken_off  # as nbgrader leaves it
            tables.keep_readings(self._session, *whose, kept)
            tables.apply(self._session, *whose, result.key)
            if content and not result.void:
                points = (None, None) if result.refusal else (result.score, result.max_score)
                tables.attempted(self._session, *whose, content, moment(result.timestamp), points)

    def _names(self, notebook: Any) -> Mapping[int, str]:
        """The cells of a notebook by number: asked at once, where nbgrader's own rows would ask for each."""
        wanted = select(BaseCell.id, BaseCell.name).where(BaseCell.notebook_id == notebook.notebook_id)
        return dict(self._session.execute(wanted).all())

    def _submission(self, result: Result) -> Any:
        self._gradebook.update_or_create_student(result.student)
        fields = {} if (when := moment(result.timestamp)) is None else {"timestamp": when}
        with self._session.no_autoflush:  # nbgrader links new rows before it adds them; SQLAlchemy would warn
            submission = self._gradebook.update_or_create_submission(result.assignment, result.student, **fields)
        self._extend(submission)
        return submission

    def questions(self, assignment: str) -> list[str]:
        """The grade_ids that carry points."""
        cells = [cell for book in self.assignment(assignment, 0).notebooks for cell in book.cells]
        return [cell.grade_id for cell in cells if cell.grade or cell.task]

    def id_columns(self) -> dict[str, str]:
        """platform → the column in which its newest roster had the students' ids."""
        return self._read(lambda: tables.id_columns(self._session))

    def enrol(self, roster: Roster) -> tuple[list[str], list[str]]:
        """Students with their names as a roster has them: who is new, and of whom something has changed.

        What the roster doesn't say stays, and nobody is taken out. Where it had the ids an export puts them again.
        """
        with _in_our_words(), self._transaction():
            known = {student.id: student for student in self._gradebook.students}
            new = [one.student for one in roster.students if one.student not in known]
            changed = [
                one.student
                for one in roster.students
                if one.student in known
                and any(getattr(known[one.student], name) != value for name, value in one.known().items())
            ]
            for one in roster.students:
                self._gradebook.update_or_create_student(one.student, **one.known())
            tables.keep_id_column(self._session, roster.platform, roster.column)
        return new, changed

    # --- lateness

    def due(self, assignment: str) -> datetime | None:
        """When everybody has to hand in, UTC; None where there is no such date."""
        found: datetime | None = self._read(lambda: self._gradebook.find_assignment(assignment).duedate)
        return found

    def closes(self, assignment: str) -> datetime | None:
        """When the last student has to hand in, UTC, whatever an extension is; None where there is no due date."""
        due = self.due(assignment)
        if due is None:
            return None
        wanted = (
            select(SubmittedAssignment.extension)
            .join(AssignmentRow, AssignmentRow.id == SubmittedAssignment.assignment_id)
            .where(AssignmentRow.name == assignment, SubmittedAssignment.extension.is_not(None))
        )
        more: list[timedelta] = self._read(lambda: list(self._session.execute(wanted).scalars()))
        return max([due, *(due + each for each in more), *self.extensions(assignment).values()])

    def named(self, student: str) -> str:
        """First and last name, or the id where the gradebook has neither."""

        def found() -> str:
            row = self._gradebook.find_student(student)
            return " ".join(part for part in (row.first_name, row.last_name) if part) or student

        return self._read(found)

    def comments(self, student: str, assignment: str) -> list[tuple[str, str, str]]:
        """What stands beside a student's answers: notebook, cell, a person's comment or nbgrader's own."""

        def found() -> list[tuple[str, str, str]]:
            try:
                submission = self._gradebook.find_submission(assignment, student)
            except MissingEntry:
                return []
            rows = ((book.name, one.name, one.comment or "") for book in submission.notebooks for one in book.comments)
            return sorted(rows)

        return self._read(found)

    def platform_ids(self) -> dict[str, str]:
        """student → the id that the learning platform has for them, for those who have one."""
        wanted = select(Student.id, Student.lms_user_id).where(Student.lms_user_id.is_not(None))
        return self._read(lambda: {str(one): str(there) for one, there in self._session.execute(wanted) if there})

    def most(self, assignment: str) -> float:
        """Points that an assignment gives."""
        return self._read(lambda: float(self._gradebook.find_assignment(assignment).max_score))

    def extensions(self, assignment: str) -> dict[str, datetime]:
        """student → until when they have time, UTC, for those who have more than the others."""
        return self._read(lambda: tables.extensions(self._session, assignment))

    def extend(self, student: str, assignment: str, until: datetime | None) -> None:
        """Time for one student until then, UTC, and what it does to a penalty; None takes the extension back.

        Raises `CourseError` where the gradebook doesn't know the student, or the assignment has no due date.
        """
        if not self.knows_student(student):
            raise CourseError(f"the gradebook knows no student {student!r}; `nbgrader db student list` names them")
        if self.due(assignment) is None:
            raise CourseError(
                f"{assignment} has no due date that could be extended; formgrader sets one, or "
                f'`nbgrader db assignment add {assignment} --duedate="2026-12-01 18:00 UTC"`'
            )
        with _in_our_words(), self._transaction():
            tables.extend(self._session, student, assignment, until)
            try:
                submission = self._gradebook.find_submission(assignment, student)
            except MissingEntry:
                return  # nothing handed in yet: it counts when something is
            submission.extension = None
            self._extend(submission)
            for notebook in submission.notebooks:
                if notebook.late_submission_penalty is not None or notebook.score:
                    notebook.late_submission_penalty = self._taken_off(submission, notebook)

    def settled(self, result: Result) -> bool:
        """Whether what is taken off for lateness is what due date, extension and nbgrader's plugin say today."""
        whose = (result.student, result.assignment)
        now, due = self.standing(*whose, recorded=True), self.standing(*whose)
        return now is not None and due is not None and now.handed_in and isclose(now.penalty, due.penalty, abs_tol=1e-9)

    def _extend(self, submission: Any) -> None:
        """nbgrader's own field, made of our date: the student's time ends then, wherever the due date moves."""
        until = tables.extension(self._session, submission.student.id, submission.assignment.name)
        due = submission.assignment.duedate
        if until is not None and due is not None:
            submission.extension = max(timedelta(0), until - due)

    def _taken_off(self, submission: Any, notebook: Any) -> float | None:
        """What is due of the points that the notebook has now."""
        self._session.flush()
        self._session.refresh(notebook)
        late = seconds_late(submission.timestamp, submission.assignment.duedate, submission.extension, None)
        return self._lateness.taken_off(submission.student.id, notebook.score, late)

    # --- one transaction

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


@contextmanager
def alone(course: Course, config: Config | None = None) -> Iterator[Record]:
    """The gradebook, while no other command changes grades; `BusyError` names the one that does."""
    with held_alone(course.state), Record(course, config) as record:
        record.hold_alone()
        yield record


@contextmanager
def held(course: Course, config: Config | None = None) -> Iterator[None]:
    """The same for what may come before the gradebook: one that is a file needn't be there."""
    if make_url(course.db_url).drivername.startswith("sqlite"):
        with held_alone(course.state):
            yield
    else:
        with alone(course, config):
            yield


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


def _source(path: Path) -> dict[str, Any] | None:
    """The source notebook as JSON; None where there is none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        cells = [cell for cell in found["cells"] if cell["source"] is not None and cell["metadata"] is not None]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {**found, "cells": cells}


def _order(source: Mapping[str, Any] | None) -> list[str]:
    """The grade_ids as the source notebook has them; the database promises no order. Empty where there is none."""
    marks = [cell["metadata"].get("nbgrader", {}) for cell in source["cells"]] if source else []
    return [mark["grade_id"] for mark in marks if "grade_id" in mark]


def _text(result: Result, graded: Graded | None, question: str) -> str | None:
    """Digest of what was answered; a refusal is what a person saw in place of any answer."""
    if result.refusal is not None:
        return digest(result.refusal)
    return None if graded is None else graded.answers.get(question)


def _read_by(grade: Any, known: Reading, text: str | None) -> Reading:
    """Whose text a person's score is for: of what was recorded when they gave it."""
    if grade.manual_score is None:
        return Reading(text)
    given = not grade.needs_manual_grade and known.recorded is not None
    return Reading(text, known.recorded if given else known.scored)


def _grade(
    notebook: Any, graded: Graded | None, names: Mapping[int, str], texts: Mapping[tuple[str, str], Reading]
) -> None:
    """nbgrader's meaning of each field; a question without a verdict waits for a person and is never zero.

    A person's score waits where they haven't read this text (nbgrader lets it wait after every run).
    """
    points: Mapping[str, float | None] = (
        {} if graded is None else {outcome.grade_id: outcome.points for outcome in graded.outcomes}
    )
    missing = graded is not None and graded.missing
    for grade in notebook.grades:
        grade.auto_score = points.get(names[grade.cell_id])
        if grade.manual_score is None:
            grade.needs_manual_grade = grade.auto_score is None and not missing
        else:
            text = texts[notebook.name, names[grade.cell_id]]
            grade.needs_manual_grade = text.recorded is None or text.recorded != text.scored
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


def _let_go(alone: Connection) -> None:
    """A server hears of a closed connection a while later: who comes next must not find the lock still held."""
    with suppress(SQLAlchemyError):  # a connection that was cut holds nothing
        alone.execute(select(func.pg_advisory_unlock(LOCK)))
    alone.close()


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
