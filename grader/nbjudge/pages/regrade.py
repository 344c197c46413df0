"""After a mended test: a copy of the gradebook first, the class graded again, and every score that moves, with why."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import URL, make_url

from nbjudge.course.gradebook import Score, Standing
from nbjudge.course.layout import Course, writing
from nbjudge.errors import CourseError, GradebookError
from nbjudge.grading.batch import Entry
from nbjudge.model import Assignment

DUMP_S = 600
NO_DUMP = "no copy of the gradebook could be made: {why}. Make one yourself, then say --no-backup"


@dataclass(frozen=True, slots=True)
class Move:
    """One score that isn't what it was. `stays` is a person's score, which counts whatever the grader says."""

    student: str
    grade_id: str
    before: float | None
    after: float | None
    why: str
    stays: float | None = None


def demand_generated(course: Course, assignment: Assignment) -> None:
    """Raises `CourseError` where the source has tests that the gradebook doesn't know yet."""
    folder = course.folder(course.source, ".", assignment.name)
    for notebook in assignment.notebooks:
        written = dict(_sources(folder / f"{notebook.name}.ipynb"))
        changed = [
            cell.grade_id
            for cell in notebook.cells
            if cell.grade
            and not cell.solution
            and written.get(cell.grade_id, cell.source).strip() != cell.source.strip()
        ]
        if changed:
            raise CourseError(
                f"{folder / notebook.name}.ipynb has changed since the release was generated ({', '.join(changed)}); "
                f"run `nbgrader generate_assignment {assignment.name} --force` first"
            )


def _sources(path: Path) -> Iterator[tuple[str, str]]:
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for cell in cells:
            if grade_id := cell["metadata"].get("nbgrader", {}).get("grade_id"):
                yield grade_id, "".join(cell["source"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return


def back_up(course: Course) -> Path:
    """A copy of the whole gradebook below `.grader/backups`, named by the moment.

    Raises `GradebookError` where none can be made, `StorageError` where it can't be written.
    """
    url = make_url(course.db_url)
    folder = course.state / "backups"
    kind = "db" if url.drivername.startswith("sqlite") else "dump"
    path = folder / f"gradebook-{time.strftime('%Y%m%d-%H%M%S')}.{kind}"
    with writing(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        path.touch(mode=0o600)
    if kind == "db":
        _copy_sqlite(Path(url.database or ""), path)
    else:
        _dump_postgresql(url, path)
    return path


def _copy_sqlite(source: Path, path: Path) -> None:
    try:
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(path)) as new:
            old.backup(new)
    except sqlite3.Error as error:
        path.unlink(missing_ok=True)
        raise GradebookError(NO_DUMP.format(why=error)) from error


def _dump_postgresql(url: URL, path: Path) -> None:
    """By PostgreSQL's own program; the password goes by the environment, where no list of processes shows it."""
    program = shutil.which("pg_dump")
    plain = url.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    command = [program or "pg_dump", "--format=custom", f"--file={path}", f"--dbname={plain}"]
    environment = os.environ | ({"PGPASSWORD": str(url.password)} if url.password else {})
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DUMP_S, check=False)  # noqa: S603 -- PostgreSQL's own program, the course's own address
        why = (done.stderr.strip().splitlines() or ["pg_dump failed"])[-1] if done.returncode else None
    except (OSError, subprocess.TimeoutExpired) as error:
        why = f"pg_dump: {error}"
    if why:
        path.unlink(missing_ok=True)
        raise GradebookError(NO_DUMP.format(why=why))


def moves(before: Iterable[Standing], after: Iterable[Standing], entries: Sequence[Entry]) -> list[Move]:
    """Every question of every student whose automatic score is another one now."""
    old = {(one.student, score.grade_id): score for one in before for score in one.scores}
    said = {
        (entry.student, outcome.grade_id): outcome.message for entry in entries for outcome in entry.result.outcomes
    }
    return [
        _move(one.student, score, old, said)
        for one in after
        for score in one.scores
        if (was := old.get((one.student, score.grade_id))) is None or was.auto != score.auto
    ]


def _move(
    student: str, score: Score, old: Mapping[tuple[str, str], Score], said: Mapping[tuple[str, str], str]
) -> Move:
    was = old.get((student, score.grade_id))
    lines = said.get((student, score.grade_id), "").strip().splitlines()
    why = lines[0] if lines else "passed" if score.auto else "no score"
    return Move(student, score.grade_id, was.auto if was else None, score.auto, why, score.manual)


def rows(found: Sequence[Move]) -> list[tuple[str, str, str, str, str]]:
    """The moves as a table: header first."""
    header = ("student", "question", "before", "after", "why")
    return [header, *((move.student, move.grade_id, _number(move.before), _counted(move), move.why) for move in found)]


def _number(points: float | None) -> str:
    return "–" if points is None else f"{points:g}"


def _counted(move: Move) -> str:
    stays = "" if move.stays is None else f" (a person's {move.stays:g} counts)"
    return _number(move.after) + stays
