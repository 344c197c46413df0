"""nbgrader's `export`, in files that other programs read: quoted, without formulas, and never 0 for "not graded".

In nbgrader_config.py `c.ExportApp.plugin_class = "nbjudge.course.exporters.GradesCsv"`, or on the command line
`nbgrader export --exporter=nbjudge.course.exporters.CanvasCsv --assignment '["NAME"]' --to canvas.csv`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.plugins import ExportPlugin
from traitlets import Bool, Unicode

from nbjudge.course.gradebook import Stage, Standing, standings
from nbjudge.course.layout import write_whole

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\0")
READABLE = 0o644
NO_GRADE = (Stage.NOT_GRADED, Stage.NOT_HANDED_IN)
Row = Sequence[object]


def table(rows: Iterable[Row]) -> str:
    """Rows as CSV that a spreadsheet shows and never computes: a text that looks like a formula gets an apostrophe.

    >>> print(table([["id", "score"], ["=1+1", -2.5], ["Ng, Ada", None]]).replace("\\r\\n", "\\n"), end="")
    id,score
    '=1+1,-2.5
    "Ng, Ada",
    """
    text = io.StringIO()
    csv.writer(text).writerows([_plain(value) for value in row] for row in rows)
    return text.getvalue()


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.lstrip(" ").startswith(FORMULA) else text


class _Exporter(ExportPlugin):  # type: ignore[misc]  # nbgrader ships no types
    """What the exporters share: which students and assignments, where to."""

    default_file = ""

    def export(self, gradebook: Gradebook) -> None:
        """nbgrader's hook: writes one file, whole or not at all."""
        names = [name for name in self._names(gradebook) if not self.assignment or name in self.assignment]
        class_list = [student for student in gradebook.students if not self.student or student.id in self.student]
        found = {name: {one.student: one for one in standings(gradebook, name)} for name in names}
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


class _ForTeachingPlatform(_Exporter):
    """A column an assignment; a cell stays empty, and so changes nothing over there, until its grade is final."""

    unfinished = Bool(False, help="Also export scores of submissions that still wait for a person.").tag(config=True)

    def points(self, one: Standing) -> float | None:
        """What to put into a cell."""
        if one.state in NO_GRADE or (one.state is Stage.WAITS and not self.unfinished):
            return None
        return one.points

    def warn_of_empty(self, found: dict[str, dict[str, Standing]]) -> None:
        """Say how many cells are left empty, and why."""
        for name, by_student in found.items():
            for state in (Stage.NOT_GRADED, Stage.WAITS):
                count = sum(one.state is state and self.points(one) is None for one in by_student.values())
                if count:
                    self.log.warning("%s: %d left empty: %s", name, count, state)


class CanvasCsv(_ForTeachingPlatform):
    """Canvas's gradebook import: five columns that tell who, then one an assignment, points possible in row two.

    Canvas matches students by `ID`, its own number: put it into nbgrader's `lms_user_id`
    (`nbgrader db student add ID --lms-user-id=NUMBER`). Where that is missing, `SIS Login ID` carries nbgrader's id.
    """

    default_file = "canvas.csv"
    section = Unicode("", help="Text of the Section column.").tag(config=True)

    def rows(
        self, gradebook: Gradebook, students: Sequence[Any], found: dict[str, dict[str, Standing]]
    ) -> Iterator[Row]:
        """Header, points possible, one row a student."""
        self.warn_of_empty(found)
        yield ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", *found)
        most = {assignment.name: float(assignment.max_score) for assignment in gradebook.assignments}
        yield ("    Points Possible", "", "", "", "", *(most[name] for name in found))
        for student in students:
            full_name = ", ".join(part for part in (student.last_name, student.first_name) if part) or student.id
            who = (full_name, student.lms_user_id or "", "", student.id, self.section)
            yield (*who, *(self.points(by_student[student.id]) for by_student in found.values()))


class MoodleCsv(_ForTeachingPlatform):
    """Moodle's grade import from CSV: map `ID number` or `Email address` there, then each assignment to its item."""

    default_file = "moodle.csv"

    def rows(self, _: Gradebook, students: Sequence[Any], found: dict[str, dict[str, Standing]]) -> Iterator[Row]:
        """The names of Moodle's own export, then one column an assignment."""
        self.warn_of_empty(found)
        yield (
            "First name",
            "Last name",
            "ID number",
            "Email address",
            *(f"Assignment: {name} (Real)" for name in found),
        )
        for student in students:
            who = (student.first_name, student.last_name, student.id, student.email)
            yield (*who, *(self.points(by_student[student.id]) for by_student in found.values()))
