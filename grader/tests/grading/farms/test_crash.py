"""kill -9 at random moments: after a rerun the grades are those of a run that nobody disturbed, and nothing is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbjudge_tests import crashes
from nbjudge_tests.classroom import crowd, small
from nbjudge_tests.classroom.commands import ENVIRONMENT, python
from nbjudge_tests.classroom.gradebook import Rows, rows
from nbjudge_tests.session import ALL

STUDENTS, KILLS, PLACES = (40, 15, 3) if ALL else (3, 4, 2)  # of 4 processes that may be killed, so many were


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = small.make(tmp_path_factory.mktemp("crash") / "course")
    crowd.hand_in_class(root, STUDENTS)
    return root


@pytest.fixture(scope="module")
def undisturbed(handed_in: Path, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return crowd.graded_alone(handed_in, tmp_path_factory.mktemp("quiet") / "course")


@pytest.mark.whole
def test_kills_change_no_grade_and_leave_nothing(handed_in: Path, undisturbed: Rows, tmp_path: Path) -> None:
    root = tmp_path / "course"
    shutil.copytree(handed_in, root)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    siege = crashes.besiege(crashes.grading(small.NAME), root, KILLS, seed=5, temporary=temporary)
    assert siege.kills.total() == KILLS
    assert len(siege.kills) >= PLACES, siege
    assert rows(root) == undisturbed
    assert leftovers(root, temporary) == []


@pytest.fixture
def _ctrl_c_is_heard() -> Iterator[None]:
    """By what is started, too: a shell turns it off for what it runs in its background, tests for example."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.whole
@pytest.mark.usefixtures("_ctrl_c_is_heard")
def test_ctrl_c_ends_it_with_a_sentence_and_the_next_run_goes_on(
    handed_in: Path, undisturbed: Rows, tmp_path: Path
) -> None:
    root = tmp_path / "course"
    shutil.copytree(handed_in, root)
    running = subprocess.Popen(
        crashes.grading(small.NAME, "--workers", "1"),  # one after the other: the signal comes while there is work
        cwd=root,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stderr is not None
    first = running.stderr.readline()
    os.killpg(running.pid, signal.SIGINT)
    said = running.stderr.read()
    running.stderr.close()
    assert running.wait() == 2
    assert first.startswith(f"1/{STUDENTS} ")
    assert "the same command goes on from here" in said
    assert "Traceback" not in said
    assert "unchanged" in python(root, "-m", "nbjudge", "autograde", small.NAME)
    assert rows(root) == undisturbed


def leftovers(root: Path, temporary: Path) -> list[Path]:
    """What a killed process may leave: drafts in the course, folders below the runs' own temporary one."""
    return [*root.rglob("*.tmp"), *root.rglob("*.swap"), *root.rglob("*-journal"), *temporary.iterdir()]
