"""The answers under tests/data/answers/NN_topic/: right ones, wrong ones tagged with their misconception."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nbjudge_tests.session import ALL
from tools.course.masters import Master, MasterCell, read_master

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "data" / "answers"
ASSIGNMENT = "05_data_versus_detach"  # the one that benchmarks and browsers use as an example
EXERCISES = {"solution", "manual"}


@dataclass(frozen=True)
class Answer:
    """One answer to one exercise: the source of its solution cell and what has to come of it.

    `points` is None where a wrong answer may get something, but not everything; `says` stands in the feedback.
    """

    cell: str
    label: str
    source: str
    right: bool
    misconception: str | None = None
    points: float | None = None
    says: str = ""

    def __str__(self) -> str:
        return f"{self.cell}-{self.label}"


def assignments() -> list[str]:
    """The assignments whose answers are here."""
    return sorted(path.name for path in FOLDER.iterdir() if any(path.glob("*.toml")))


@cache
def master(name: str) -> Master:
    return read_master(ROOT / "source" / f"{name}.py")


def exercises(name: str = ASSIGNMENT) -> dict[str, tuple[MasterCell, MasterCell]]:
    """grade_id of the solution → (solution cell, test cell), for what is graded by machine."""
    cells = {cell.grade_id: cell for cell in master(name).cells if cell.grade_id}
    return {
        exercise: (cell, cells[f"{exercise}_test"]) for exercise, cell in cells.items() if f"{exercise}_test" in cells
    }


def by_hand(name: str) -> dict[str, MasterCell]:
    """grade_id → cell, for what is graded by hand."""
    return {str(cell.grade_id): cell for cell in master(name).cells if cell.kind == "manual"}


def before(name: str, exercise: str) -> list[MasterCell]:
    """The cells between the exercise before and the answer's own cell: prompt, hints, what is given."""
    cells = master(name).cells
    end = next(number for number, cell in enumerate(cells) if cell.grade_id == exercise)
    start = max((number for number, cell in enumerate(cells[:end]) if cell.kind is not None), default=-1)
    return list(cells[start + 1 : end])


def prompt(name: str, exercise: str) -> str:
    """What the exercise asks, without its hints."""
    return next(cell.source for cell in before(name, exercise) if cell.source.startswith("## "))


def program(name: str, exercise: str = "find") -> dict[int, str]:
    """The program in an exercise's prompt, by line number."""
    return {int(number): line for number, line in re.findall(r"^ ?(\d+)   (.*)$", prompt(name, exercise), re.MULTILINE)}


def kind_of(exercise: str) -> str:
    """What a learner does there: the part of the grade_id before the first `_`."""
    return exercise.partition("_")[0]


def answers(name: str = ASSIGNMENT) -> list[Answer]:
    """Every right and wrong answer of the assignment, in the order of the files."""
    return [answer for path in sorted((FOLDER / name).glob("*.toml")) for answer in _read(path)]


def chosen(name: str) -> list[Answer]:
    """The answers that are always graded: of each exercise the first right one, the first and the last wrong one."""
    found = answers(name)
    if ALL:
        return found
    kept = []
    for exercise in exercises(name):
        right = [answer for answer in found if answer.cell == exercise and answer.right]
        wrong = [answer for answer in found if answer.cell == exercise and not answer.right]
        kept += [right[0], wrong[0], wrong[-1]]
    return kept


def _read(path: Path) -> list[Answer]:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    found = []
    if any("change" in entry for entry in data["wrong"]):
        found.append(Answer(data["cell"], "right-0", _source(data, {}), True))
    for kind in ("right", "wrong"):
        for number, entry in enumerate(data.get(kind, ()), 1):
            source = _source(data, entry)
            points = entry.get("points", None if "change" in entry else 0)
            label = f"{kind}-{number}"
            told = entry.get("misconception"), points, entry.get("says", "")
            found.append(Answer(data["cell"], label, source, kind == "right", *told))
    return found


def _source(data: dict[str, Any], entry: dict[str, Any]) -> str:
    if "source" in entry:
        return str(entry["source"]).strip("\n")
    value = entry["answer"] if "answer" in entry else {**data["answer"], **entry.get("change", {})}
    if data.get("expressions"):
        return f"{data['name']} = {{{', '.join(f'{key!r}: {text}' for key, text in value.items())}}}"
    return f"{data['name']} = {value!r}"
