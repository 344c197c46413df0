"""A copy of the whole gradebook, before anything changes grades."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from itertools import count
from pathlib import Path

from sqlalchemy.engine import URL, make_url

from nbjudge.course.layout import Course, writing
from nbjudge.errors import GradebookError

DUMP_S = 600
MOST = 30  # copies that are kept; the oldest go
NO_DUMP = (
    "no copy of the gradebook could be made: {why}. Make one yourself, then say --no-backup "
    "(c.SandboxedAutograde.backup = False)"
)


def back_up(course: Course) -> Path:
    """A copy of the whole gradebook below `.grader/backups`, named by the moment; the newest thirty stay.

    Raises `GradebookError` where none can be made, `StorageError` where it can't be written.
    """
    url = make_url(course.db_url)
    folder = course.state / "backups"
    kind = "db" if url.drivername.startswith("sqlite") else "dump"
    moment = time.strftime("%Y%m%d-%H%M%S")
    names = (f"gradebook-{moment}{f'-{number}' if number else ''}.{kind}" for number in count())
    with writing(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        path = next(place for name in names if not (place := folder / name).exists())
        path.touch(mode=0o600)
    if kind == "db":
        _copy_sqlite(Path(url.database or ""), path)
    else:
        _dump_postgresql(url, path)
    _leave_the_newest(folder)
    return path


def _leave_the_newest(folder: Path) -> None:
    copies = sorted(folder.glob("gradebook-*"), key=lambda path: path.stat().st_mtime_ns)
    for old in copies[:-MOST]:
        old.unlink(missing_ok=True)


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
