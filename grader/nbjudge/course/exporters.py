"""nbgrader's `export`, in files that other programs read: quoted, without formulas, and never 0 for "not graded".

In nbgrader_config.py `c.ExportApp.plugin_class = "nbjudge.course.exporters.GradesCsv"`, or on the command line
`nbgrader export --exporter=nbjudge.course.exporters.CanvasCsv --assignment '["NAME"]' --to canvas.csv`.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.plugins import ExportPlugin
from traitlets import Bool, Dict, Enum, Unicode
from traitlets.config import Config

from nbjudge.course.layout import write_whole
from nbjudge.course.office import tables
from nbjudge.course.office.lateness import Lateness
from nbjudge.course.office.roster import CANVAS, EXPORTERS, MOODLE
from nbjudge.course.office.standings import Stage, Standing, standings
from nbjudge.shown.text import printable

FORMULA = frozenset("=+-@")
ONE_LINE = str.maketrans("\t\n", "  ")  # the other ends of lines are gone where a text is printable
SPLITS = re.compile("(?<=[,;|])")
READABLE = 0o644
NO_GRADE = (Stage.NOT_GRADED, Stage.NOT_HANDED_IN)
CANVAS_IDS = ("ID", "SIS User ID", "SIS Login ID")
ONE_BY_ONE = """; to export the others, take this one by itself: --assignment '["{name}"]' and the rest likewise"""
BY_ID_ALONE = (
    "no ID of Canvas's own is known of %s: their rows are found by %s alone; `nbjudge roster` reads it from the "
    "file that Canvas exports"
)
NUMBERED = re.compile(r"\(\d+\)\s*$")
NO_NUMBER = (
    "the column %r has no number of Canvas's, which takes it for a new assignment; where there is one already, "
    "nbgrader_config.py needs c.CanvasCsv.titles = {%r: 'Title (12345)'}, as `nbjudge roster` tells it"
)
NOT_ENROLLED = (
    "neither name nor e-mail is known of %s: their rows are found by %s alone; `nbjudge roster` reads them from the "
    "file that Moodle exports"
)
OTHER_COLUMN = (
    "the newest roster had nbgrader's ids in %r, and this file has them under %r; where that isn't meant, "
    "--%s.student_id=COLUMN says another (%s)"
)
CURE = (
    "What waits for a person is graded in formgrader, under Manual Grading; --{exporter}.unfinished=True exports what "
    "is known already"
)
Row = Sequence[object]


def table(rows: Iterable[Row]) -> str:
    """Rows as CSV that a spreadsheet shows and never computes: every field quoted, a text in one line.

    Where a text, or what stands in it behind a sign that some program splits at, looks like a formula, it gets an
    apostrophe.

    >>> print(table([["id", "score"], ["=1+1", -2.5], ["Ng, Ada;=1", None]]).replace("\\r\\n", "\\n"), end="")
    "id","score"
    "'=1+1","-2.5"
    "Ng, Ada;'=1",""
    """
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([_plain(value) for value in row] for row in rows)
    return text.getvalue()


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    text = printable(str(value)).translate(ONE_LINE)
    if not isinstance(value, str):
        return text
    return "".join(f"'{part}" if _computes(part) else part for part in SPLITS.split(text))


def _computes(part: str) -> bool:
    """Whether a spreadsheet may take it for a formula: some know wide signs too, and leave out what nobody sees."""
    for letter in unicodedata.normalize("NFKC", part):
        if letter != '"' and unicodedata.category(letter)[0] not in "ZC":
            return letter in FORMULA
    return False


class _Exporter(ExportPlugin):  # type: ignore[misc]  # nbgrader ships no types
    """What the exporters share: which students and assignments, where to."""

    default_file = ""

    def export(self, gradebook: Gradebook) -> None:
        """nbgrader's hook: writes one file, whole or not at all."""
        names = [name for name in self._names(gradebook) if not self.assignment or name in self.assignment]
        class_list = [student for student in gradebook.students if not self.student or student.id in self.student]
        due = Lateness(self.config)
        found = {name: {one.student: one for one in standings(gradebook, name, due=due)} for name in names}
        path = Path(self.to or self.default_file)
        self.log.info("Exporting grades to %s", path)
        rows = self.rows(gradebook, sorted(class_list, key=lambda student: str(student.id)), found)
        write_whole(path, table(rows).encode(), READABLE)

    def _names(self, gradebook: Gradebook) -> list[str]:
        return [assignment.name for assignment in gradebook.assignments]

    def rows(
        self, gradebook: Gradebook, students: Sequence[Any], found: dict[str, dict[str, Standing]]
    ) -> Iterator[Row]:
        """The header, then what follows."""
        raise NotImplementedError


class GradesCsv(_Exporter):
    """nbgrader's own columns and a last one, `state`; no score where nothing was graded."""

    default_file = "grades.csv"
    columns = (
        *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
        *("raw_score", "late_submission_penalty", "score", "max_score", "state"),
    )

    def rows(
        self, gradebook: Gradebook, students: Sequence[Any], found: dict[str, dict[str, Standing]]
    ) -> Iterator[Row]:
        """One row a student and assignment; who handed nothing in has 0, as in nbgrader."""
        yield self.columns
        for assignment in gradebook.assignments:
            for student in students if assignment.name in found else ():
                one = found[assignment.name][student.id]
                numbers = (
                    (one.raw_points, one.penalty, one.points) if one.state is not Stage.NOT_GRADED else (None,) * 3
                )
                who = (student.id, student.last_name, student.first_name, student.email)
                moments = (assignment.duedate, one.timestamp)
                yield (assignment.name, *moments, *who, *numbers, float(assignment.max_score), str(one.state))


def id_columns(config: Config) -> dict[str, str]:
    """platform → the column with nbgrader's ids, where the course says which: for its roster, too.

    >>> id_columns(Config({"CanvasCsv": {"student_id": "SIS User ID"}}))
    {'Canvas': 'SIS User ID'}
    """
    exporters = {"CanvasCsv": CanvasCsv, "MoodleCsv": MoodleCsv}
    return {
        platform: str(exporters[name](config=config).student_id)
        for platform, name in EXPORTERS.items()
        if "student_id" in config.get(name, ())
    }


class _ForTeachingPlatform(_Exporter):
    """A column an assignment, a row a student who has all of its scores: what isn't final isn't in the file.

    Those programs take an empty cell against a score for a change, so a row with a gap is left out, and named.
    """

    unfinished = Bool(False, help="Also export scores of submissions that still wait for a person.").tag(config=True)
    titles = Dict(
        value_trait=Unicode(),
        key_trait=Unicode(),
        help="What an assignment is called over there, with its id where it has one: {'small': 'Small (12345)'}.",
    ).tag(config=True)

    numbered = False  # does the platform know an assignment by a number behind its title?
    platform = ""
    student_id: Any  # a column's name; each platform has its own

    def export(self, gradebook: Gradebook) -> None:
        """nbgrader's hook: ids go where the newest roster had them, unless the configuration names another column."""
        known = tables.id_columns(gradebook.db).get(self.platform, self.student_id)
        possible = type(self).class_traits()["student_id"].values
        if known in possible and "student_id" not in self.config.get(type(self).__name__, ()):
            self.student_id = known
        if known != self.student_id:
            self.log.warning(OTHER_COLUMN, known, self.student_id, type(self).__name__, ", ".join(possible))
        super().export(gradebook)

    def points(self, one: Standing) -> float | None:
        """What to put into a cell."""
        if one.state in NO_GRADE or (one.state is Stage.WAITS and not self.unfinished):
            return None
        return one.points

    def title(self, name: str) -> str:
        """The heading of an assignment's column."""
        return str(self.titles.get(name, name))

    def complete(
        self, students: Sequence[Any], found: dict[str, dict[str, Standing]]
    ) -> tuple[list[str], list[tuple[Any, list[float]]]]:
        """The assignments in which somebody has a score, and the students who have one in each of them."""
        self._warn_of_titles(found)
        names = [name for name, by in found.items() if any(self.points(by[one.id]) is not None for one in students)]
        for name in names if self.numbered else ():
            if not NUMBERED.search(self.title(name)):
                self.log.warning(NO_NUMBER, self.title(name), name)
        rows: list[tuple[Any, list[float]]] = []
        for student in students if names else ():
            points = [self.points(found[name][student.id]) for name in names]
            scores = [one for one in points if one is not None]
            if len(scores) == len(names):
                rows.append((student, scores))
            else:
                gaps = [name for name, one in zip(names, points, strict=True) if one is None]
                said = ", ".join(f"{name} {found[name][student.id].state}" for name in gaps)
                also = ONE_BY_ONE.format(name=gaps[0]) if scores else ""
                self.log.warning("%s is left out: %s%s", student.id, said, also)
        for name in found.keys() - set(names):
            self.log.warning("%s is left out: nobody has a score that is final", name)
        if not self.unfinished and any(by[one.id].state is Stage.WAITS for by in found.values() for one in students):
            self.log.warning(CURE.format(exporter=type(self).__name__))
        return names, rows

    def _warn_of_titles(self, found: dict[str, dict[str, Standing]]) -> None:
        for name in sorted(self.titles.keys() - found.keys()):
            self.log.warning("titles names %r, which is no assignment that is exported", name)


class CanvasCsv(_ForTeachingPlatform):
    """Canvas's gradebook import: five columns that tell who, then one an assignment, points possible in row two.

    Canvas matches students by `ID`, its own number, which nbgrader keeps as `lms_user_id` (`nbjudge roster` reads it
    from Canvas's own export), and by the column that `student_id` names.
    """

    platform = CANVAS
    default_file = "canvas.csv"
    numbered = True
    section = Unicode("", help="Text of the Section column.").tag(config=True)
    student_id = Enum(
        CANVAS_IDS,
        "SIS Login ID",
        help="The column of Canvas's that nbgrader's student ids belong in, if it isn't the newest roster's.",
    ).tag(config=True)

    def rows(
        self, gradebook: Gradebook, students: Sequence[Any], found: dict[str, dict[str, Standing]]
    ) -> Iterator[Row]:
        """Header, points possible, one row a student."""
        names, complete = self.complete(students, found)
        yield ("Student", *CANVAS_IDS, "Section", *map(self.title, names))
        most = {assignment.name: float(assignment.max_score) for assignment in gradebook.assignments}
        yield ("    Points Possible", *("" for _ in CANVAS_IDS), "", *(most[name] for name in names))
        if strangers := [student.id for student, _ in complete if not student.lms_user_id]:
            self.log.warning(BY_ID_ALONE, ", ".join(strangers), self.student_id)
        for student, scores in complete:
            full_name = ", ".join(part for part in (student.last_name, student.first_name) if part) or student.id
            ids = {"ID": student.lms_user_id or "", self.student_id: student.id}
            yield (full_name, *(ids.get(column, "") for column in CANVAS_IDS), self.section, *scores)


class MoodleCsv(_ForTeachingPlatform):
    """Moodle's grade import from CSV: map `ID number` or `Email address` there, then each assignment to its item."""

    platform = MOODLE
    default_file = "moodle.csv"
    student_id = Enum(
        ("ID number", "Username"),
        "ID number",
        help="The column of Moodle's that nbgrader's student ids belong in, if it isn't the newest roster's.",
    ).tag(config=True)

    def title(self, name: str) -> str:
        """As Moodle's own export heads an assignment's column, unless `titles` says otherwise."""
        return str(self.titles.get(name, f"Assignment: {name} (Real)"))

    def rows(self, _: Gradebook, students: Sequence[Any], found: dict[str, dict[str, Standing]]) -> Iterator[Row]:
        """The names of Moodle's own export, then one column an assignment."""
        names, complete = self.complete(students, found)
        yield ("First name", "Last name", self.student_id, "Email address", *map(self.title, names))
        known = ("first_name", "last_name", "email")
        if strangers := [each.id for each, _ in complete if not any(getattr(each, name) for name in known)]:
            self.log.warning(NOT_ENROLLED, ", ".join(strangers), self.student_id)
        for student, scores in complete:
            yield (student.first_name, student.last_name, student.id, student.email, *scores)
