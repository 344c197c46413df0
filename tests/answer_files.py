"""The answers under tests/answers/: right ones, wrong ones tagged with their misconception, and the stub."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.masters import MasterCell, read_master

ROOT = Path(__file__).parents[1]
ASSIGNMENT = "05_data_versus_detach"
FOLDER = ROOT / "tests" / "answers" / ASSIGNMENT


@dataclass(frozen=True)
class Answer:
    """One answer to one exercise: the source of its solution cell and what has to come of it.

    `points` is None where a wrong answer may get something, but not everything.
    """

    cell: str
    label: str
    source: str
    right: bool
    misconception: str | None = None
    points: float | None = None

    def __str__(self) -> str:
        return f"{self.cell}-{self.label}"


def exercises() -> dict[str, tuple[MasterCell, MasterCell]]:
    """grade_id of the solution → (solution cell, test cell), for what is graded by machine."""
    cells = {cell.grade_id: cell for cell in read_master(ROOT / "source" / f"{ASSIGNMENT}.py").cells if cell.grade_id}
    return {name: (cell, cells[f"{name}_test"]) for name, cell in cells.items() if f"{name}_test" in cells}


def answers() -> list[Answer]:
    """Every right and wrong answer of the assignment, in the order of the files."""
    return [answer for path in sorted(FOLDER.glob("*.toml")) for answer in _read(path)]


def _read(path: Path) -> list[Answer]:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    found = []
    if "change" in data["wrong"][0]:
        found.append(Answer(data["cell"], "right-0", _source(data, {}), True))
    for kind in ("right", "wrong"):
        for number, entry in enumerate(data.get(kind, ()), 1):
            source = _source(data, entry)
            points = entry.get("points", None if "change" in entry else 0)
            label = f"{kind}-{number}"
            found.append(Answer(data["cell"], label, source, kind == "right", entry.get("misconception"), points))
    return found


def _source(data: dict[str, Any], entry: dict[str, Any]) -> str:
    if "source" in entry:
        return str(entry["source"]).strip("\n")
    value = entry["answer"] if "answer" in entry else {**data["answer"], **entry.get("change", {})}
    return f"{data['name']} = {value!r}"
