"""Who takes the course, from the CSV that Canvas or Moodle exports: ids, names, e-mail.

Canvas: *Grades, Export*. Moodle: *Participants, Download as CSV*, or a grade export. nbgrader's student id is the name
under which students hand in (on a hub, their user name): `id_column` says which column holds it.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbjudge.course.layout import checked_name
from nbjudge.errors import CourseError

CANVAS, MOODLE = "Canvas", "Moodle"
ID_COLUMNS = {CANVAS: ("SIS Login ID", "SIS User ID", "ID"), MOODLE: ("Username", "ID number", "Email address")}
FIRST, LAST = ("First name", "Firstname", "Given name"), ("Last name", "Surname", "Lastname")
EMAIL = ("Email address", "Email", "E-mail address")
DELIMITERS = ",;\t"


@dataclass(frozen=True, slots=True)
class Enrolled:
    """One student of a roster; None where it doesn't say."""

    student: str
    first_name: str | None = None
    last_name: str | None = None
    email: str | None = None
    lms_user_id: str | None = None

    def known(self) -> dict[str, str]:
        """What it says besides the id: what it doesn't say stays as it is.

        >>> Enrolled("ada", first_name="Ada").known()
        {'first_name': 'Ada'}
        """
        fields = ("first_name", "last_name", "email", "lms_user_id")
        return {name: value for name in fields if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class Roster:
    """A file that was read: whose export it is, its students, and what couldn't be taken from it."""

    platform: str
    students: tuple[Enrolled, ...]
    left_out: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()  # Canvas's assignments, with their ids


def read_roster(path: Path, id_column: str = "") -> Roster:
    """Raises `CourseError`: no such file, neither platform's, no such column, an id twice."""
    header, rows = _rows(path)
    platform = CANVAS if "Student" in header and "ID" in header else MOODLE
    if platform == MOODLE and not set(FIRST) & set(header):
        raise CourseError(
            f"{path} has neither Canvas's columns (Student, ID, SIS Login ID) nor Moodle's (First name, Last name, "
            f"Email address); it has {', '.join(header[:8])}"
        )
    column = id_column or _first(header, ID_COLUMNS[platform])
    if column not in header:
        raise CourseError(f"{path} has no column {column!r} for the students' ids; it has {', '.join(header[:12])}")
    read = _from_canvas if platform == CANVAS else _from_moodle
    students, left_out = [], []
    for number, row in rows:
        found = read(row, row.get(column, ""))
        if found is None:
            continue
        if problem := _unusable(found.student, column):
            left_out.append(f"line {number}: {problem}")
        else:
            students.append(found)
    twice = sorted(name for name, count in Counter(one.student for one in students).items() if count > 1)
    if twice:
        raise CourseError(f"{path} has these ids twice in {column!r}: {', '.join(twice)}. Name another column by --id")
    return Roster(platform, tuple(students), tuple(left_out), _titles(header) if platform == CANVAS else ())


def _rows(path: Path) -> tuple[list[str], Iterator[tuple[int, Mapping[str, str]]]]:
    """The header, and each row by column with its line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{path} can't be read as a CSV in UTF-8: {error}") from error
    first = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header = [name.strip() for name in next(reader, [])]
    return header, ((reader.line_num, dict(zip(header, map(str.strip, row), strict=False))) for row in reader if row)


def _first(header: Sequence[str], names: Sequence[str]) -> str:
    return next((name for name in names if name in header), names[0])


def _said(row: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((row[name] for name in names if row.get(name)), None)


def _from_canvas(row: Mapping[str, str], student: str) -> Enrolled | None:
    """`Student` is "Lovelace, Ada", or "Ada Lovelace" in older exports; the row of possible points is nobody."""
    name = row.get("Student", "")
    if name.startswith(("Points Possible", "Student, Test")) or not any(row.values()) or not row.get("ID"):
        return None
    last, comma, first = name.partition(",")
    if not comma:
        first, _, last = name.rpartition(" ")
    return Enrolled(student, first.strip() or None, last.strip() or None, _said(row, EMAIL), row["ID"])


def _from_moodle(row: Mapping[str, str], student: str) -> Enrolled | None:
    if not any(row.values()):
        return None
    return Enrolled(student, _said(row, FIRST), _said(row, LAST), _said(row, EMAIL))


def _unusable(student: str, column: str) -> str | None:
    """Why nbgrader can't name a folder by this id."""
    if not student:
        return f"no id in {column!r}"
    try:
        checked_name(student)
    except CourseError:
        return f"{student!r} can't be an id: nbgrader names folders by it"
    return f"{student!r} can't be an id: nbgrader's exchange separates by '+'" if "+" in student else None


def _titles(header: Sequence[str]) -> tuple[str, ...]:
    """Canvas's columns of assignments end with their ids: `Small things (12345)`."""
    return tuple(name for name in header if name.endswith(")") and name.rpartition("(")[2][:-1].isdigit())
