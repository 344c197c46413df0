"""Many students hand in the small course's assignment."""

from __future__ import annotations

import shutil
from pathlib import Path

from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import nbgrader, python
from nbjudge_tests.classroom.gradebook import Rows, rows


def hand_in_class(root: Path, students: int) -> None:
    """Release the course's assignment; every third student is right, partly right, or hands in the release as it is."""
    nbgrader(root, "generate_assignment", small.NAME)
    answers = (small.RIGHT, small.PARTLY, small.NOTHING)
    for number in range(students):
        small.hand_in(root, f"s{number:02}", answers[number % 3], "2026-02-03 12:00:00 UTC")


def graded_alone(handed_in: Path, root: Path) -> Rows:
    """The gradebook after one undisturbed run on this machine, over a copy in `root`."""
    shutil.copytree(handed_in, root)
    python(root, "-m", "nbjudge", "autograde", small.NAME)
    return rows(root)
