"""What a run has moved: every score that isn't what it was, with why; and whether a mended test was generated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbjudge.course.layout import Course
from nbjudge.course.office.standings import Standing
from nbjudge.errors import CourseError
from nbjudge.grading.batch import Entry
from nbjudge.model import Assignment, Notebook
from nbjudge.pages.screen import columns
from nbjudge.shown.text import counted

LATENESS = "lateness"  # in place of a question's name


@dataclass(frozen=True, slots=True)
class Move:
    """One score that isn't what it was. `stays` is a person's score, which counts whatever the grader says."""

    student: str
    grade_id: str
    before: float | None
    after: float | None
    why: str
    stays: float | None = None


def demand_generated(course: Course, assignment: Assignment, made: Callable[[Path], Mapping[str, Any]]) -> None:
    """Raises `CourseError` where the source has tests that the gradebook doesn't know yet.

    `made` is what generating makes of a source, which is asked only where a cell isn't the gradebook's as it stands:
    lines `### AUTOTEST …` are tests there.
    """
    folder = course.folder(course.source, ".", assignment.name)
    for notebook in assignment.notebooks:
        path = folder / f"{notebook.name}.ipynb"
        if _changed(notebook, _read(path)) and (changed := _changed(notebook, made(path))):
            raise CourseError(
                f"{folder / notebook.name}.ipynb has changed since the release was generated ({', '.join(changed)}); "
                f"run `nbjudge generate {assignment.name} --force` first"
            )


def _changed(notebook: Notebook, document: Mapping[str, Any]) -> list[str]:
    written = dict(_sources(document))
    tests = [cell for cell in notebook.cells if cell.grade and not cell.solution]
    return [one.grade_id for one in tests if written.get(one.grade_id, one.source).strip() != one.source.strip()]


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _sources(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    try:
        for cell in document["cells"]:
            if grade_id := cell["metadata"].get("nbgrader", {}).get("grade_id"):
                yield grade_id, "".join(cell["source"])
    except (KeyError, TypeError, AttributeError):
        return


def moved(entries: Sequence[Entry]) -> list[Move]:
    """What a run has moved for those who were graded before it."""
    known = [entry for entry in entries if entry.before and entry.before.handed_in and entry.standing]
    before, after = [entry.before for entry in known], [entry.standing for entry in known]
    return moves(filter(None, before), filter(None, after), entries)


def moves(before: Iterable[Standing], after: Iterable[Standing], entries: Sequence[Entry] = ()) -> list[Move]:
    """Every question of every student whose automatic score is another one now, and every penalty."""
    old = {one.student: one for one in before}
    said = {
        (entry.student, outcome.grade_id): outcome.message for entry in entries for outcome in entry.result.outcomes
    }
    return [move for one in after for move in _moves(old.get(one.student), one, said)]


def _moves(before: Standing | None, after: Standing, said: Mapping[tuple[str, str], str]) -> Iterator[Move]:
    old = {score.grade_id: score for score in before.scores} if before else {}
    for score in after.scores:
        was = old.get(score.grade_id)
        if was is None or was.auto != score.auto:
            lines = said.get((after.student, score.grade_id), "").strip().splitlines()
            why = lines[0] if lines else "passed" if score.auto else "no score"
            yield Move(after.student, score.grade_id, was.auto if was else None, score.auto, why, score.manual)
        elif was.manual != score.manual or (score.waits and not was.waits and score.manual is not None):
            why = "the answer has changed: to be looked at again" if score.waits else "a person's score"
            yield Move(after.student, score.grade_id, was.points, score.points, why)
    penalties = (before.penalty if before else 0.0), after.penalty
    if penalties[0] != penalties[1]:
        yield Move(after.student, LATENESS, 0.0 - penalties[0], 0.0 - penalties[1], "what is taken off for it")


def told(entries: Sequence[Entry]) -> list[str]:
    """What a run has moved, as lines for a terminal or a log; none where nothing moved."""
    found = moved(entries)
    students = len({move.student for move in found})
    return (
        [*columns(rows(found)), "", f"{counted(len(found), 'score')} moved, {counted(students, 'student')}"]
        if found
        else []
    )


def rows(found: Sequence[Move]) -> list[tuple[str, str, str, str, str]]:
    """The moves as a table: header first."""
    header = ("student", "question", "before", "after", "why")
    return [header, *((move.student, move.grade_id, _number(move.before), _counted(move), move.why) for move in found)]


def _number(points: float | None) -> str:
    return "–" if points is None else f"{points:g}"


def _counted(move: Move) -> str:
    stays = "" if move.stays is None else f" (a person's {move.stays:g} counts)"
    return _number(move.after) + stays
