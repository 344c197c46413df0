"""A folder of somebody's notebooks → courses for both graders: one assignment a notebook, with a class of answers.

Each notebook is an assignment of its own, so that one that nbgrader refuses costs no other.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tools.strangers.wrong import handed_in

ODD = re.compile(r"[^A-Za-z0-9_\-]")  # in a grade_id, where older notebooks have it
MOST_BYTES = 20 << 20  # of the files beside a notebook
ANSWER = {"grade": False, "locked": False, "schema_version": 3, "solution": True, "task": False}
STOCK = 'c = get_config()\nc.CourseDirectory.course_id = "strangers"\n'
OURS = "from nbjudge.plugin import install\n\n" + STOCK + 'install(c)\nc.SandboxedAutograde.prove = "off"\n'
GRADERS = {"stock": STOCK, "ours": OURS}  # by the folder that each works in


@dataclass(frozen=True, slots=True)
class GradedNotebook:
    """One notebook with marks, and the name of the assignment that is made of it."""

    name: str
    path: Path


def notebooks(folder: Path) -> Iterator[GradedNotebook]:
    """The notebooks of a course that nbgrader would grade something in: Python, with test cells that have points."""
    for path in sorted(folder.rglob("*.ipynb")):
        inside = path.relative_to(folder)
        if not any(part.startswith(".") for part in inside.parts) and _is_graded(path):
            yield GradedNotebook(re.sub(r"[^A-Za-z0-9]+", "-", str(inside.with_suffix(""))).strip("-"), path)


def _is_graded(path: Path) -> bool:
    try:
        book = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    kernel = book.get("metadata", {}).get("kernelspec", {})
    cells = [cell for cell in book.get("cells", []) if cell["cell_type"] == "code"]
    tested = any(mark.get("grade") and not mark.get("solution") for mark in map(_marks, cells))
    return "python" in str(kernel).lower() and tested and any(map(_is_answer, cells))


def _is_answer(cell: dict[str, Any]) -> bool:
    """Marked as one, or to be marked: a solution in a cell without a mark is nothing that nbgrader releases."""
    return bool(_marks(cell).get("solution")) or _lacks_a_mark(cell)


def _lacks_a_mark(cell: dict[str, Any]) -> bool:
    source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
    return "BEGIN SOLUTION" in source and not _marks(cell)


def _marks(cell: dict[str, Any]) -> dict[str, Any]:
    found = cell["metadata"].get("nbgrader", {})
    return found if isinstance(found, dict) else {}


def place(found: GradedNotebook, work: Path) -> None:
    """Lays the source of an assignment into the stock grader's course."""
    folder = work / "stock" / "source" / found.name
    shutil.rmtree(folder, ignore_errors=True)
    size = sum(path.stat().st_size for path in _beside(found))
    shutil.copytree(found.path.parent, folder, ignore=_notebooks if size < MOST_BYTES else _everything)
    book = json.loads(found.path.read_text(encoding="utf-8"))
    for number, cell in enumerate(book["cells"]):
        if cell["cell_type"] == "code" and _lacks_a_mark(cell):
            cell["metadata"]["nbgrader"] = {**ANSWER, "grade_id": f"answer-{number}"}
            continue
        marks = _marks(cell)
        if isinstance(name := marks.get("grade_id"), str):
            marks["grade_id"] = ODD.sub("", name)
        if marks.get("grade") and not float(marks.get("points") or 0):
            marks["points"] = 1  # a test without points would compare equal whatever it says
    book["metadata"]["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    (folder / "notebook.ipynb").write_text(json.dumps(book), encoding="utf-8")


def _beside(found: GradedNotebook) -> Iterator[Path]:
    return (path for path in found.path.parent.rglob("*") if path.is_file())


def _notebooks(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(".ipynb") or name.startswith(".")]


def _everything(_folder: str, names: list[str]) -> list[str]:
    return names


def hand_in(name: str, work: Path, most: int) -> None:
    """What a class of `most` hands in for a generated assignment: the release with other text in the notebook."""
    stock = work / "stock"
    source, release = (stock / step / name / "notebook.ipynb" for step in ("source", "release"))
    books = [json.loads(path.read_text(encoding="utf-8")) for path in (source, release)]
    for student, book in islice(handed_in(*books), most):
        folder = stock / "submitted" / student / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(release.parent, folder)
        (folder / "notebook.ipynb").write_text(json.dumps(book), encoding="utf-8")
        shutil.copytree(folder, work / "ours" / folder.relative_to(stock), dirs_exist_ok=True)
    shutil.copytree(source.parent, work / "ours" / "source" / name, dirs_exist_ok=True)


def fresh(work: Path) -> None:
    """Two courses with nothing in them but their configuration."""
    for grader, text in GRADERS.items():
        folder = work / grader
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "nbgrader_config.py").write_text(text, encoding="utf-8")
