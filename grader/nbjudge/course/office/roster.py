"""Who takes the course, from the CSV that Canvas or Moodle exports: ids, names, e-mail.

Canvas: *Grades, Export*. Moodle: *Participants, Download as CSV*, or a grade export. nbgrader's student id is the name
under which students hand in (on a hub, their user name). The column that holds it is the one that an export puts it in:
`--id` says it, and the gradebook keeps it for the next roster and the exports; `student_id` of the exporters, which
`nbjudge.course.exporters.id_columns` reads, says it for a course whose configuration is to be the place.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nbjudge.course.intake import Unreadable, plain_file
from nbjudge.course.layout import MOST_LETTERS, unusable
from nbjudge.errors import CourseError
from nbjudge.shown.text import printable

CANVAS, MOODLE = "Canvas", "Moodle"
EXPORTERS = {CANVAS: "CanvasCsv", MOODLE: "MoodleCsv"}  # whose `student_id` may name the column
ID_COLUMNS = {CANVAS: ("SIS Login ID", "SIS User ID", "ID"), MOODLE: ("Username", "ID number", "Email address")}
FIRST, LAST = ("First name", "Firstname", "Given name"), ("Last name", "Surname", "Lastname")
NOBODY = (
    "{path} names nobody who has handed in: its students are {found} by the column {column!r}, and {known} handed in. "
    "If another column has nbgrader's ids, say --id COLUMN (the file has {header}), which the exports then go by too. "
    "If it is the right one, --id {column!r}. A student that a wrong column has brought goes by "
    "`nbgrader db student remove ID`"
)
MOST_NAMED = 4
EMAIL = ("Email address", "Email", "E-mail address")
MOST_BYTES = 64 << 20
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
    column: str  # where the ids were
    header: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()  # Canvas's assignments, with their ids


def read_roster(path: Path, id_column: str = "", columns: Mapping[str, str] = MappingProxyType({})) -> Roster:
    """The ids stand in `id_column`, else where `columns` says of the platform, else in the first of `ID_COLUMNS`.

    Raises `CourseError`: no such file, neither platform's, no such column, an id twice.
    """
    header, rows = _rows(path)
    platform = CANVAS if "Student" in header and "ID" in header else MOODLE
    if platform == MOODLE and not set(FIRST) & set(header):
        raise CourseError(
            f"{path} has neither Canvas's columns (Student, ID, SIS Login ID) nor Moodle's (First name, Last name, "
            f"Email address); it has {', '.join(header[:8])}"
        )
    column = id_column or columns.get(platform) or _first(header, ID_COLUMNS[platform])
    if column not in header:
        raise CourseError(f"{path} has no column {column!r} for the students' ids; it has {', '.join(header[:12])}")
    _demand_single(header, (column, "Student", "ID", *FIRST, *LAST, *EMAIL), path)
    read = _from_canvas if platform == CANVAS else _from_moodle
    students, left_out = [], []
    for number, cells in rows:
        given = dict(zip(header, cells, strict=False))
        found = read({name: " ".join(printable(cell).split()) for name, cell in given.items()}, given.get(column, ""))
        if found is None:
            continue
        if problem := _unusable(found, column):
            left_out.append(f"line {number}: {problem}")
        else:
            students.append(found)
    twice = sorted(name for name, count in Counter(one.student for one in students).items() if count > 1)
    if twice:
        raise CourseError(f"{path} has these ids twice in {column!r}: {', '.join(twice)}. Name another column by --id")
    titles = _titles(header) if platform == CANVAS else ()
    return Roster(platform, tuple(students), column, tuple(header), tuple(left_out), titles)


def demand_somebody(roster: Roster, handed_in: Collection[str], path: Path) -> None:
    """Raises `CourseError` where the file names none of those who have handed in: then it's the wrong column."""
    found = [one.student for one in roster.students]
    if not found or not handed_in or set(found) & set(handed_in):
        return
    said = {"found": _some(found), "known": _some(sorted(handed_in)), "header": ", ".join(roster.header[:12])}
    raise CourseError(NOBODY.format(path=path, column=roster.column, **said))


def _some(names: Sequence[str]) -> str:
    return ", ".join([*names[:MOST_NAMED], *(["…"] if len(names) > MOST_NAMED else [])])


Rows = Iterator[tuple[int, Sequence[str]]]


def _rows(path: Path) -> tuple[list[str], Rows]:
    """The header, and each row with its line."""
    try:
        text = plain_file(path.resolve(), MOST_BYTES).decode("utf-8-sig")
    except (Unreadable, RuntimeError) as error:  # a RuntimeError: links in a circle
        raise CourseError(f"{path}: {error}") from None
    except UnicodeDecodeError as error:
        raise CourseError(f"{path} can't be read as a CSV in UTF-8: {error}") from error
    delimiter = max(DELIMITERS, key=text.partition("\n")[0].count)
    found = _strict(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), path)
    header = next(found, (1, []))[1]
    return [name.strip() for name in header], found


def _strict(reader: Any, path: Path) -> Rows:
    """A row that no CSV has ends it all: whoever stands behind it would be lost without a word."""
    while True:
        begins = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            advice = "look there for a quote that nothing closes"
            raise CourseError(f"{path}: the row that begins in line {begins} is damaged: {error}; {advice}") from None
        if row is None:
            return
        if row:
            yield reader.line_num, row


def _demand_single(header: Sequence[str], needed: Iterable[str], path: Path) -> None:
    twice = next((name for name in needed if header.count(name) > 1), None)
    if twice:
        raise CourseError(f"{path} has two columns {twice!r}: which of them is meant? Rename or remove one")


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
    return Enrolled(student.strip(), first.strip() or None, last.strip() or None, _said(row, EMAIL), row["ID"])


def _from_moodle(row: Mapping[str, str], student: str) -> Enrolled | None:
    if not any(row.values()):
        return None
    return Enrolled(student.strip(), _said(row, FIRST), _said(row, LAST), _said(row, EMAIL))


def _unusable(one: Enrolled, column: str) -> str | None:
    """Why nbgrader can't keep this one, or name a folder by the id."""
    if not one.student:
        return f"no id in {column!r}"
    shown = ascii(one.student[:MOST_LETTERS])
    if why := unusable(one.student):
        return f"{shown} can't be an id, by which nbgrader names folders: {why}"
    if "+" in one.student:
        return f"{shown} can't be an id: nbgrader's exchange separates by '+'"
    long = next((name for name, value in one.known().items() if len(value) > MOST_LETTERS), None)
    return f"{long} of {shown} is longer than the gradebook's {MOST_LETTERS} letters" if long else None


def _titles(header: Sequence[str]) -> tuple[str, ...]:
    """Canvas's columns of assignments end with their ids: `Small things (12345)`."""
    return tuple(name for name in header if name.endswith(")") and name.rpartition("(")[2][:-1].isdigit())
