"""Two gradebooks side by side: which questions got the same points, which didn't, and what we say of these."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Gradebook

Key = tuple[str, str, str]  # assignment, student, question


@dataclass(frozen=True, slots=True)
class PointsPair:
    """One question of one submission: the points from both graders (None: not graded), and our sentence."""

    assignment: str
    student: str
    question: str
    most: float
    stock: float | None
    ours: float | None
    said: str = ""

    @property
    def equal(self) -> bool:
        """Did both give the same?"""
        if self.stock is None or self.ours is None:
            return self.stock is self.ours
        return abs(self.stock - self.ours) < 1e-6

    @property
    def cause(self) -> str:
        """Our sentence without names and numbers, so that what is alike is counted together."""
        way = "not graded" if self.ours is None else "lower" if self.ours < (self.stock or 0.0) else "higher"
        first = self.said.splitlines()[0] if self.said else "no sentence"
        return f"{way}: " + re.sub(r"\d+(\.\d+)?", "0", re.sub(r"'[^']*'", "'…'", first))[:110]


def points(course: Path) -> dict[Key, tuple[float, float | None]]:
    """What a gradebook holds of every question that has a test: the most there is, and what was given."""
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "strangers") as book:
        return {
            (one.assignment.name, one.student.id, cell.name): (cell.max_score, cell.auto_score)
            for assignment in book.assignments
            for one in assignment.submissions
            for notebook in one.notebooks
            for cell in notebook.grades
            if cell.cell.cell_type != "markdown"
        }


def sentences(course: Path) -> dict[Key, str]:
    """What our grader says of each question."""
    found: dict[Key, str] = {}
    for path in sorted((course / "said").glob("*.json")):
        for one in json.loads(path.read_text(encoding="utf-8"))["said"]:
            for question, said in one["questions"].items():
                found[path.stem, one["student"], question] = said
    return found


def rows(work: Path) -> list[PointsPair]:
    """Every question that stock has graded."""
    ours, said = points(work / "ours"), sentences(work / "ours")
    return [
        PointsPair(*key, most, given, ours.get(key, (0.0, None))[1], said.get(key, ""))
        for key, (most, given) in sorted(points(work / "stock").items())
        if any(key[:2] == other[:2] for other in ours)
    ]


def told(found: Sequence[PointsPair]) -> list[str]:
    """A count, then what differs by its cause, the most frequent first, each with a place to look at."""
    differing = [row for row in found if not row.equal]
    lines = [f"{len(found)} rows compared: {len(found) - len(differing)} equal, {len(differing)} differ"]
    for cause, number in Counter(row.cause for row in differing).most_common():
        lines.append(f"{number:5}  {cause}")
        lines += [
            f"         {row.assignment} · {row.student} · {row.question}: stock {row.stock}, ours {row.ours}"
            for row in [row for row in differing if row.cause == cause][:3]
        ]
    return lines
