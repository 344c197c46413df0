"""Copies of the gradebook: whole or not there, bounded in number and in time, and nobody else's file is touched."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nbjudge.course.layout import Course
from nbjudge.course.office import backups
from nbjudge.course.office.backups import MOST, back_up
from nbjudge.errors import DiskFull, GradebookError


@pytest.fixture
def course(tmp_path: Path) -> Course:
    with closing(sqlite3.connect(tmp_path / "gradebook.db")) as book:
        book.execute("CREATE TABLE grade (points)")
        book.execute("INSERT INTO grade VALUES (7)")
        book.commit()
    return Course(tmp_path, f"sqlite:///{tmp_path / 'gradebook.db'}")


def names(course: Course) -> list[str]:
    return sorted(path.name for path in (course.state / "backups").iterdir())


def test_only_copies_of_ours_are_taken_away_and_the_first_of_a_day_stays(course: Course) -> None:
    folder = back_up(course).parent
    (folder / "gradebook-before-the-exam.db").write_text("a person's")
    for minute in range(40):
        path = folder / f"gradebook-20260101-10{minute:02}00.db"
        path.write_text("old")
        os.utime(path, (minute, minute))
    newest = back_up(course)
    left = names(course)
    assert "gradebook-before-the-exam.db" in left
    assert "gradebook-20260101-100000.db" in left  # from before whatever went wrong that day
    assert newest.name in left
    assert len(left) == MOST + 2


def test_a_gradebook_that_somebody_holds_is_told_and_no_half_copy_stays(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "BUSY_S", 0.2)
    with closing(sqlite3.connect(course.root / "gradebook.db")) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(GradebookError, match="locked"):
            back_up(course)
    assert names(course) == []


def test_a_killed_copy_never_looks_like_one_and_is_swept(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(backups, "_copy_sqlite", killed)
        with pytest.raises(KeyboardInterrupt):
            back_up(course)
    assert not [name for name in names(course) if name.endswith(".db")]
    path = back_up(course)
    assert names(course) == [path.name]
    assert path.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(path)) as copy:
        assert copy.execute("SELECT points FROM grade").fetchall() == [(7,)]


def test_a_full_disk_is_said_to_be_full(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(backups, "_copied", full)
    with pytest.raises(DiskFull, match="make room"):
        back_up(course)
