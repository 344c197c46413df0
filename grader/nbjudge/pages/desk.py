"""What an instructor does besides grading, as lines to read: extensions, attempts, regrade requests, the roster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from nbjudge.course.gradebook import Record
from nbjudge.course.layout import Course
from nbjudge.course.office.astray import astray
from nbjudge.course.office.requests import RegradeRequest
from nbjudge.course.office.roster import Roster
from nbjudge.course.office.standings import Stage, Standing
from nbjudge.course.privacy import SQLITE, exposed, gradebook_files
from nbjudge.errors import CourseError
from nbjudge.pages.regrade import moves, rows
from nbjudge.pages.screen import columns, late
from nbjudge.shown.text import counted

MINUTES = "%Y-%m-%d %H:%M"
NOTHING_MOVED = "No score moves."
NO_COURSE = "\nOnly the machine was looked at, no course: {why}. A new course is a folder with that file in it."
NOTHING_WRITTEN = (
    "No assignment is there yet: write {place}/NAME/NAME.ipynb, mark its cells in JupyterLab (its right sidebar, "
    "Create Assignment), then `nbjudge generate NAME`."
)
NOT_GENERATED = "There is no gradebook yet: `nbjudge generate {names}` makes it, and what students get."


def until(said: str) -> datetime | None:
    """A date as a person writes it, UTC unless it names an offset; "none" takes an extension back.

    >>> until("2026-12-01 18:00 +0100")
    datetime.datetime(2026, 12, 1, 17, 0)
    """
    if said.lower() == "none":
        return None
    plain = re.sub(r"\s*(?:UTC|Z)$|\s+(?=[+-]\d\d:?\d\d$)", "", said.strip())
    try:
        found = datetime.fromisoformat(plain)
        return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise CourseError(
            f"{said!r} is no date; write it as 2026-12-01 18:00, in UTC, or with its offset (+0100)"
        ) from None


def extended(record: Record, student: str, assignment: str, date: datetime | None) -> Iterator[str]:
    """Gives the time, and says what it moves."""
    record.assignment(assignment, 0)
    before = record.standings(assignment)
    record.extend(student, assignment, date)
    due = record.due(assignment)
    everybody = f"the class: {due:{MINUTES}} UTC" if due else "the class has no date"
    yield f"{student} has time for {assignment} until {date or due:{MINUTES}} UTC ({everybody})"
    if date is not None and due is not None and date < due:
        yield "That is before the class's date, which counts for this student too."
    found = moves(before, record.standings(assignment))
    yield from columns(rows(found)) if found else [NOTHING_MOVED]


def log_of_attempts(record: Record, assignment: str) -> list[str]:
    """Every text that was graded, what counts of it all now, and who has more time than the others.

    What the tests gave says neither what a person gives nor what lateness costs: a student's last line has that.
    """
    record.assignment(assignment, 0)
    counts = {one.student: _counts(one) for one in record.standings(assignment)}
    found = [("student", "attempt", "handed in (UTC)", "graded (UTC)", "by the tests", "counts now")]
    attempts = record.attempts(assignment)
    last = {one.student: one for one in attempts}
    for one in attempts:
        handed_in = f"{one.handed_in:{MINUTES}}" if one.handed_in else "–"
        points = "refused" if one.points is None else f"{one.points:g}/{one.possible:g}"
        now = counts.get(one.student, "") if one is last[one.student] else ""
        found.append((one.student, str(one.number), handed_in, f"{one.recorded:{MINUTES}}", points, now))
    more = [f"{student} has time until {date:{MINUTES}} UTC" for student, date in record.extensions(assignment).items()]
    return [*columns(found), *([""] if more else []), *more]


def _counts(one: Standing) -> str:
    """The points that an export would have, with what lateness has cost."""
    if one.state is Stage.NOT_GRADED:
        return str(one.state)
    return f"{one.points:g}, {late(one.penalty)}" if one.penalty else f"{one.points:g}"


def not_graded(record: Record, course: Course, student: str, assignment: str) -> str:
    """Why there is nothing to tell of a student: where their work lies instead, or who has any graded."""
    graded = ", ".join(one.student for one in record.standings(assignment) if one.handed_in) or "nobody yet"
    lost = dict(astray(course, assignment, record.notebooks())).get(student)
    why = f"; graded are: {graded}" if lost is None else f": {lost}"
    return f"{student!r} has no graded submission of {assignment}{why}"


def listed(requests: Sequence[RegradeRequest]) -> list[str]:
    """One line a request."""
    found = [("number", "student", "assignment", "question", "asked", "what")]
    for one in requests:
        said = f"{one.text} → {one.answer} ({one.closed})" if one.closed else one.text
        found.append((str(one.number), one.student, one.assignment, one.question or "–", one.asked, said))
    return columns(found) if requests else ["No request is open."]


def demand_known(record: Record, student: str, assignment: str, question: str) -> None:
    """Raises `CourseError` where a request names what the gradebook doesn't know."""
    questions = record.questions(assignment)
    if not record.knows_student(student):
        raise CourseError(f"the gradebook knows no student {student!r}")
    if question and question not in questions:
        raise CourseError(f"{assignment} has no question {question!r}; it has {', '.join(questions)}")


def enrolled(record: Record, roster: Roster) -> Iterator[str]:
    """Takes the roster over, and says whom it changed and whom it lacks."""
    known = set(record.students())
    new, changed = record.enrol(roster)
    yield f"{roster.platform}: {counted(len(roster.students), 'student')}, {len(new)} new, {len(changed)} changed"
    yield f"ids by the column {roster.column!r}, kept for the next roster and the exports"
    for title, names in (("new", new), ("changed", changed)):
        if names:
            yield f"{title}: {', '.join(names)}"
    if gone := sorted(known - {one.student for one in roster.students}):
        yield f"in the gradebook and not in the file (they stay): {', '.join(gone)}"
    yield from (f"left out: {said}" for said in roster.left_out)
    if roster.titles:
        yield "Canvas calls its assignments (for c.CanvasCsv.titles): " + "; ".join(roster.titles)


def checked(course: Course) -> Iterator[str]:
    """What of a course everybody on this machine can read, and what it lacks before anybody can be graded."""
    if found := [str(path.relative_to(course.root)) for path in exposed(course)]:
        yield f"Everybody on this machine can read {', '.join(found)}. Keep the course to yourself:"
        yield f"  chmod 700 {course.root}"
    else:
        yield "Nobody else on this machine can read the course."
    written = course.sources()
    if not written:
        yield NOTHING_WRITTEN.format(place=course.source)
    elif course.db_url.startswith(SQLITE) and not gradebook_files(course):
        yield NOT_GENERATED.format(names=" ".join(written))
