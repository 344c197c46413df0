"""The grader's own rows in the gradebook: which Result a grade is from, which text a person read, time and attempts.

And in which column of the platform's the newest roster had nbgrader's ids, where an export puts them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Column,
    DateTime,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    inspect,
    select,
    update,
)

METADATA = MetaData()
WHOSE = ("student", "assignment")


def _table(name: str, keys: tuple[str, ...], *columns: Column[Any]) -> Table:
    named = (Column(key, String(128), primary_key=True) for key in (*WHOSE, *keys))
    return Table(name, METADATA, *named, *columns)


APPLIED = _table("grader_applied", (), Column("result_key", String(64), nullable=False))
READINGS = _table(  # of an answer's text: what is recorded now, and what the person read who scored it
    "grader_readings", ("notebook", "question"), Column("recorded", String(64)), Column("scored", String(64))
)
EXTENSIONS = _table("grader_extensions", (), Column("until", DateTime, nullable=False))
ATTEMPTS = _table(
    "grader_attempts",
    (),
    Column("number", Integer, primary_key=True),
    Column("content", String(64), nullable=False),
    Column("handed_in", DateTime),
    Column("recorded", DateTime, nullable=False),
    Column("points", Float),  # none: refused
    Column("possible", Float),
)
ID_COLUMNS = Table(
    "grader_id_columns", METADATA, Column("platform", String(16), primary_key=True), Column("name", Text)
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Digests of one answer's text: as it is recorded, and as it was when a person scored it."""

    recorded: str | None = None
    scored: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One text that a student handed in, with the points that the grader gave last; None where it was refused."""

    student: str
    number: int
    content: str
    handed_in: datetime | None
    recorded: datetime
    points: float | None
    possible: float | None


def _of(table: Table, student: str, assignment: str) -> tuple[Any, ...]:
    return table.c.student == student, table.c.assignment == assignment


def applied(session: Any, assignment: str) -> dict[str, str]:
    """student → key of the Result that their grades came from."""
    wanted = select(APPLIED.c.student, APPLIED.c.result_key).where(APPLIED.c.assignment == assignment)
    return dict(session.execute(wanted).all())


def apply(session: Any, student: str, assignment: str, key: str) -> None:
    """That Result is what the grades come from."""
    session.execute(delete(APPLIED).where(*_of(APPLIED, student, assignment)))
    session.execute(insert(APPLIED).values(student=student, assignment=assignment, result_key=key))


def readings(session: Any, student: str, assignment: str) -> dict[tuple[str, str], Reading]:
    """(notebook, question) → the text that is recorded and the one that was scored."""
    found = session.execute(select(READINGS).where(*_of(READINGS, student, assignment)))
    return {(row.notebook, row.question): Reading(row.recorded, row.scored) for row in found}


def keep_readings(session: Any, student: str, assignment: str, kept: Mapping[tuple[str, str], Reading]) -> None:
    """In place of those that were there."""
    session.execute(delete(READINGS).where(*_of(READINGS, student, assignment)))
    rows = [
        {
            "student": student,
            "assignment": assignment,
            "notebook": notebook,
            "question": question,
            "recorded": reading.recorded,
            "scored": reading.scored,
        }
        for (notebook, question), reading in kept.items()
    ]
    if rows:
        session.execute(insert(READINGS), rows)


def extension(session: Any, student: str, assignment: str) -> datetime | None:
    """Until when this student has time, where somebody said so."""
    wanted = select(EXTENSIONS.c.until).where(*_of(EXTENSIONS, student, assignment))
    found: datetime | None = session.execute(wanted).scalar()
    return found


def extensions(session: Any, assignment: str) -> dict[str, datetime]:
    """Everybody's for an assignment; none where the gradebook has never been opened by us."""
    if not inspect(session.connection()).has_table(EXTENSIONS.name):
        return {}
    wanted = select(EXTENSIONS.c.student, EXTENSIONS.c.until).where(EXTENSIONS.c.assignment == assignment)
    return dict(session.execute(wanted).all())


def extend(session: Any, student: str, assignment: str, until: datetime | None) -> None:
    """From now on the student has time until then; None: as everybody has."""
    session.execute(delete(EXTENSIONS).where(*_of(EXTENSIONS, student, assignment)))
    if until is not None:
        session.execute(insert(EXTENSIONS).values(student=student, assignment=assignment, until=until))


def id_columns(session: Any) -> dict[str, str]:
    """platform → the column that had nbgrader's ids; none where the gradebook has never been opened by us."""
    if not inspect(session.connection()).has_table(ID_COLUMNS.name):
        return {}
    return dict(session.execute(select(ID_COLUMNS.c.platform, ID_COLUMNS.c.name)).all())


def keep_id_column(session: Any, platform: str, name: str) -> None:
    """In place of the one that was known."""
    session.execute(delete(ID_COLUMNS).where(ID_COLUMNS.c.platform == platform))
    session.execute(insert(ID_COLUMNS).values(platform=platform, name=name))


def attempts(session: Any, assignment: str) -> Iterator[Attempt]:
    """Everybody's, in the order in which they were graded."""
    order = (ATTEMPTS.c.student, ATTEMPTS.c.number)
    for row in session.execute(select(ATTEMPTS).where(ATTEMPTS.c.assignment == assignment).order_by(*order)):
        yield Attempt(row.student, row.number, row.content, row.handed_in, row.recorded, row.points, row.possible)


def attempted(
    session: Any, student: str, assignment: str, content: str, when: datetime | None, points: tuple[Any, Any]
) -> None:
    """A text was graded: a new one is one attempt more, a known one has its points anew.

    When it was handed in may be told later, by a `timestamp.txt` that somebody lays beside it.
    """
    theirs = _of(ATTEMPTS, student, assignment)
    score = {"points": points[0], "possible": points[1]}
    since = {"handed_in": func.coalesce(ATTEMPTS.c.handed_in, when)}
    known = session.execute(update(ATTEMPTS).where(*theirs, ATTEMPTS.c.content == content).values(**score, **since))
    if known.rowcount:
        return
    last = session.execute(select(func.max(ATTEMPTS.c.number)).where(*theirs)).scalar() or 0
    now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    row = {"student": student, "assignment": assignment, "number": last + 1, "content": content}
    session.execute(insert(ATTEMPTS).values(**row, handed_in=when, recorded=now, **score))
