"""A copy of the whole gradebook, before anything changes grades."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from itertools import count
from pathlib import Path

from sqlalchemy.engine import URL, make_url

from nbjudge.course.layout import DRAFT, Course, held_alone, sweep_drafts, writing
from nbjudge.errors import DiskFull, GradebookError

DUMP_S = 600
BUSY_S = 30.0  # how long to wait for whoever holds it locked
MOST = 30  # copies that are kept, and as many days of which the first stays
OURS = re.compile(r"gradebook-\d{8}-\d{6}(-\d+)?\.(db|dump)")
DAY = len("gradebook-20260131")
NO_DUMP = (
    "no copy of the gradebook could be made: {why}. Make one yourself, then say --no-backup "
    "(c.SandboxedAutograde.backup = False)"
)


def back_up(course: Course) -> Path:
    """A copy of the whole gradebook below `.grader/backups`, named by the moment: whole, or not there.

    The newest thirty stay, and the first of each of as many days.

    Raises `GradebookError` where none can be made, `StorageError` where it can't be written.
    """
    url = make_url(course.db_url)
    folder = course.state / "backups"
    kind = "db" if url.drivername.startswith("sqlite") else "dump"
    moment = time.strftime("%Y%m%d-%H%M%S")
    names = (f"gradebook-{moment}{f'-{number}' if number else ''}.{kind}" for number in count())
    with writing(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    with held_alone(course.state, "backups.lock", BUSY_S):
        sweep_drafts(folder)
        path = next(place for name in names if not (place := folder / name).exists())
        draft = path.with_name(f"{path.name}{DRAFT}")
        with writing(draft):
            draft.touch(mode=0o600)
        if kind == "db":
            _copy_sqlite(Path(url.database or ""), draft)
        else:
            _dump_postgresql(url, draft)
        with writing(path):
            draft.replace(path)
        _leave_the_newest(folder)
    return path


def _leave_the_newest(folder: Path) -> None:
    """Of copies that were made here: the newest, and the first of each of the last days."""
    copies = sorted(path for path in folder.iterdir() if OURS.fullmatch(path.name))
    firsts = {path.name[:DAY]: path for path in reversed(copies)}
    stay = {*copies[-MOST:], *sorted(firsts.values())[-MOST:]}
    for path in copies:
        if path not in stay:
            path.unlink(missing_ok=True)


def _copy_sqlite(source: Path, path: Path) -> None:
    try:
        _copied(source, path)
    except sqlite3.Error as error:
        path.unlink(missing_ok=True)
        if "disk is full" in str(error):
            raise DiskFull(f"{path} can't be written: {error}; make room and run the same command again") from error
        raise GradebookError(NO_DUMP.format(why=error)) from error


def _copied(source: Path, path: Path) -> None:
    deadline = time.monotonic() + BUSY_S

    def step(status: int, _left: int, _of: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > deadline:
            raise sqlite3.OperationalError("the gradebook is locked by another program")

    with closing(sqlite3.connect(source, timeout=0.1)) as old, closing(sqlite3.connect(path)) as new:
        old.backup(new, progress=step)


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
