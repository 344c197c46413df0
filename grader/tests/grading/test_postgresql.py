"""What only a server can do to a run: cut its connections, be copied by its own program, be held by one grader."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from nbjudge.course.gradebook import Record, alone, held
from nbjudge.course.layout import Course
from nbjudge.course.office.backups import back_up
from nbjudge.errors import BusyError, GradebookError
from nbjudge_tests import crashes
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import nbgrader, python
from nbjudge_tests.classroom.gradebook import Rows, rows
from nbjudge_tests.databases import Postgresql, programs
from nbjudge_tests.results import grades, result

STUDENTS, CUTS = 12, 4


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory, postgresql: Postgresql) -> Course:
    root = tmp_path_factory.mktemp("server") / "course"
    url = postgresql.fresh(root)
    nbgrader(small.make(root, url), "generate_assignment", small.NAME)
    return Course(root, url, "autograd101")


@pytest.fixture
def course(generated: Course, tmp_path: Path, postgresql: Postgresql) -> Course:
    root = tmp_path / "course"
    shutil.copytree(generated.root, root)
    url = postgresql.copy(generated.db_url, root)
    configuration = (root / "nbgrader_config.py").read_text().replace(generated.db_url, url)
    (root / "nbgrader_config.py").write_text(configuration)
    return replace(generated, root=root, db_url=url)


def test_a_cut_connection_costs_nothing(course: Course, postgresql: Postgresql) -> None:
    with Record(course) as record:
        postgresql.cut()
        record.write(result())
        postgresql.cut()
        record.write(result("k2", {"double_test": 1.0}))
    assert grades(course)["double_test"][0] == 1.0


def test_a_second_grader_is_refused_from_any_machine(course: Course) -> None:
    with Record(course) as first:
        first.hold_alone()
        with Record(course) as second, pytest.raises(BusyError, match="same gradebook"):
            second.hold_alone()
    with Record(course) as third:
        third.hold_alone()


@pytest.mark.whole  # the lock itself is asked above
def test_nothing_is_generated_or_proved_while_another_machine_grades(course: Course) -> None:
    """Another machine's folder has a lock of its own; the database is the same."""
    elsewhere = course.root.parent / "elsewhere"
    shutil.copytree(course.root, elsewhere)
    with alone(course):
        assert "at work on the same gradebook" in nbgrader(
            elsewhere, "generate_assignment", small.NAME, "--force", status=1
        )
        with pytest.raises(BusyError, match="same gradebook"), held(replace(course, root=elsewhere)):
            raise AssertionError
    nbgrader(elsewhere, "generate_assignment", small.NAME, "--force")


def test_a_backup_is_a_dump_that_can_be_restored(
    course: Course, postgresql: Postgresql, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = programs()
    assert folder is not None
    monkeypatch.setenv("PATH", str(folder))
    path = back_up(course)
    listed = subprocess.run([folder / "pg_restore", "--list", path], capture_output=True, text=True, check=True).stdout
    assert "TABLE DATA public submitted_assignment" in listed
    assert path.stat().st_mode & 0o777 == 0o600
    gone = replace(course, db_url=postgresql.url("nowhere"))
    with pytest.raises(GradebookError, match="--no-backup"):
        back_up(gone)


@pytest.mark.whole
def test_cuts_in_mid_run_change_no_grade(course: Course, postgresql: Postgresql, tmp_path: Path) -> None:
    for number in range(STUDENTS):
        small.hand_in(course.root, f"s{number:02}", (small.RIGHT, small.PARTLY)[number % 2], "2026-02-03 12:00:00 UTC")
    undisturbed = on_sqlite(course, tmp_path / "quiet")
    victims = ("coordinator", "zygote")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    siege = crashes.besiege(
        crashes.grading(small.NAME),
        course.root,
        CUTS,
        seed=3,
        temporary=temporary,
        cut=postgresql.cut,
        victims=victims,
    )
    assert siege.kills.total() == CUTS
    assert rows(course.root, course.db_url) == undisturbed


def on_sqlite(course: Course, root: Path) -> Rows:
    """What the same class gets in nbgrader's own kind of gradebook."""
    small.make(root)
    shutil.copytree(course.root / "submitted", root / "submitted")
    nbgrader(root, "generate_assignment", small.NAME)
    python(root, "-m", "nbjudge", "autograde", small.NAME)
    return rows(root)
