"""The idioms of `IDIOMS.md` as source notebooks: `tests/data/idioms/NAME.ipy`, whose cells begin with `# %% role`.

A role is `answer`, `test POINTS`, `given` (in the release, unlocked), `locked`, `manual POINTS`, `text POINTS` (both
read by a person) or `task POINTS`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

FOLDER = Path(__file__).parents[2] / "data" / "idioms"
KERNEL = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}
FLAGS: dict[str, dict[str, Any]] = {
    "answer": {"solution": True},
    "test": {"grade": True, "locked": True},
    "given": {},
    "locked": {"locked": True},
    "manual": {"solution": True, "grade": True},
    "text": {"solution": True, "grade": True},
    "task": {"task": True, "locked": True},
}


def notebook(text: str) -> Any:
    """The source notebook of one file."""
    parts = re.split(r"^# %% (\w+) ?(\d*)\n", text, flags=re.MULTILINE)[1:]
    every = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    cells = [_cell(role, points, source.rstrip("\n"), place) for place, (role, points, source) in enumerate(every)]
    return new_notebook(cells=cells, metadata=KERNEL)


def _cell(role: str, points: str, source: str, place: int) -> Any:
    name = f"{role}-{place}"
    new = new_markdown_cell if role in ("text", "task") else new_code_cell
    marks = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3, "grade_id": name}
    marks |= FLAGS[role] | ({"points": int(points)} if points else {})
    return new(source, id=name, metadata={} if role == "given" else {"nbgrader": marks})


def needs(text: str) -> str:
    """The package that a file says it needs, on its first line."""
    found = re.match(r"# needs: (\w+)\n", text)
    return found[1] if found else ""


def write(names: list[str], folder: Path) -> dict[str, Path]:
    """The source notebooks of these idioms, by file name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        text = (FOLDER / f"{name}.ipy").read_text(encoding="utf-8")
        nbformat.write(notebook(text), folder / f"{name}.ipynb")
    return {f"{name}.ipynb": folder / f"{name}.ipynb" for name in names}
