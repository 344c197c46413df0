"""A class that has handed in, and what this machine makes of it without a cluster."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nbjudge_tests.classroom import crowd, small
from nbjudge_tests.classroom.gradebook import Rows

STUDENTS = 16


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = small.make(tmp_path_factory.mktemp("cluster") / "course")
    crowd.hand_in_class(root, STUDENTS)
    return root


@pytest.fixture(scope="module")
def alone(handed_in: Path, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """What this machine makes of the class without a cluster."""
    return crowd.graded_alone(handed_in, tmp_path_factory.mktemp("alone") / "course")


@pytest.fixture
def course(handed_in: Path, tmp_path: Path) -> Path:
    shutil.copytree(handed_in, tmp_path / "course")
    return tmp_path / "course"
