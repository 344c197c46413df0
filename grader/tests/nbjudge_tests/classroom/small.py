"""A small course of plain Python: two notebooks, tests with hidden parts, partial credit, answers read by a person."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from nbjudge_tests.classroom.roster import filled

NAME = "small"
ROOT = Path(__file__).parents[4]
KERNEL = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}

DOUBLE = "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"
DOUBLE_TEST = """assert double(2) == 4, "double(2) should be 4"
### BEGIN HIDDEN TESTS
for secret_number in (5, 7.5):
    assert double(secret_number) == secret_number + secret_number, "not doubled"
### END HIDDEN TESTS"""
AREA = "def area(a, b):\n    ### BEGIN SOLUTION\n    return a * b\n    ### END SOLUTION"
AREA_TEST = """reached = 0.5 * (area(2, 3) == 6)
### BEGIN HIDDEN TESTS
reached += 0.5 * (area(-1, 3) == -3)
### END HIDDEN TESTS
reached"""


def cell(source: str, name: str, kind: str = "code", points: int | None = None, **flags: bool) -> Any:
    new = new_code_cell if kind == "code" else new_markdown_cell
    meta = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3, **flags}
    meta |= {"grade_id": name} | ({} if points is None else {"points": points})
    return new(source, metadata={"nbgrader": meta}, id=name.replace("_", "-"))


def coding() -> Any:
    cells = [
        new_markdown_cell("# Coding", id="title"),
        cell("import math", "setup", locked=True),
        cell(DOUBLE, "double", solution=True),
        cell(DOUBLE_TEST, "double_test", points=2, grade=True, locked=True),
        cell(AREA, "area", solution=True),
        cell(AREA_TEST, "area_test", points=1, grade=True, locked=True),
    ]
    return new_notebook(cells=cells, metadata=KERNEL)


def writing() -> Any:
    cells = [
        cell("Because.", "why", "markdown", 3, grade=True, solution=True),
        cell("### BEGIN SOLUTION\nplot = 1\n### END SOLUTION", "sketch", points=2, grade=True, solution=True),
        cell("Draw a graph.", "draw", "markdown", 4, task=True, locked=True),
    ]
    return new_notebook(cells=cells, metadata=KERNEL)


RIGHT = {"double": "def double(x):\n    return x + x", "area": "def area(a, b):\n    return a * b", "why": "So."}
PARTLY = {
    "double": "def double(x):\n    return 4",
    "area": "def area(a, b):\n    return abs(a * b)",
    "sketch": "plot = 2",
}
NOTHING: Mapping[str, str] = {}


def configure(root: Path, *settings: str) -> None:
    """This repository's configuration, for a few submissions: one worker, since each starts a zygote, and tests run
    side by side. `settings`: more of SandboxedAutograde's."""
    given = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    more = "".join(f"c.SandboxedAutograde.{setting}\n" for setting in ("workers = 1", *settings))
    (root / "nbgrader_config.py").write_text(f"{given}\n{more}", encoding="utf-8")


def make(root: Path, db_url: str = "") -> Path:
    """The course's folder with its sources; nothing generated yet. `db_url`: not nbgrader's own gradebook."""
    root.mkdir(parents=True, exist_ok=True)
    configure(root, 'prove = "off"')
    if db_url:
        with (root / "nbgrader_config.py").open("a", encoding="utf-8") as file:
            file.write(f"c.CourseDirectory.db_url = {db_url!r}\n")
    folder = root / "source" / NAME
    folder.mkdir(parents=True)
    nbformat.write(coding(), folder / "coding.ipynb")
    nbformat.write(writing(), folder / "writing.ipynb")
    return root


def hand_in(root: Path, student: str, answers: Mapping[str, str], timestamp: str | None = None) -> Path:
    """What a student sends: the release with `answers` (grade_id → source) filled in."""
    folder = root / "submitted" / student / NAME
    folder.mkdir(parents=True, exist_ok=True)
    for path in (root / "release" / "en" / NAME).glob("*.ipynb"):
        nbformat.write(filled(nbformat.read(path, as_version=4), answers, ()), folder / path.name)
    if timestamp:
        (folder / "timestamp.txt").write_text(timestamp)
    return folder
