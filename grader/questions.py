"""What the judge said, and what nobody needed to judge → one Outcome per question, one comment per answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from grader.model import Cell, Kind, Notebook, Outcome
from grader.restore import grade_id

MEANS_NO_ANSWER = frozenset({Kind.FAILED, Kind.CRASHED})


def carrying_points(notebook: Notebook) -> list[Cell]:
    """The cells that carry points: tests, written answers, tasks."""
    return [cell for cell in notebook.cells if cell.grade or cell.task]


def outcomes(document: Mapping[str, Any], notebook: Notebook, verdicts: Iterable[Outcome]) -> Iterable[Outcome]:
    """One per question, in the course's order: the judge's for tests, nbgrader's meaning for written answers."""
    judged = {outcome.grade_id: outcome for outcome in verdicts}
    blank = unchanged(document, notebook)
    answers: list[str] = []
    tested = False
    for cell in notebook.cells:
        if cell.solution and not cell.grade:
            answers = [*([] if tested else answers), cell.grade_id]
            tested = False
        elif cell.task or (cell.grade and cell.solution):
            yield _by_hand(cell, empty=cell.grade_id in blank)
        elif cell.grade:
            tested = True
            yield _verdict(cell, judged.get(cell.grade_id), empty=bool(answers) and set(answers) <= blank)


def _by_hand(cell: Cell, *, empty: bool) -> Outcome:
    if empty and not cell.task:
        return Outcome(cell.grade_id, Kind.NOT_ANSWERED, 0.0, cell.points)
    return Outcome(cell.grade_id, Kind.BY_HAND, None, cell.points)


def _verdict(cell: Cell, outcome: Outcome | None, *, empty: bool) -> Outcome:
    if outcome is None:
        return Outcome(cell.grade_id, Kind.GRADER_FAILURE, None, cell.points, "the judge gave no verdict")
    kind = Kind.NOT_ANSWERED if empty and outcome.kind in MEANS_NO_ANSWER else outcome.kind
    return replace(outcome, kind=kind, max_points=cell.points)


def comments(document: Mapping[str, Any], notebook: Notebook) -> Iterable[tuple[str, str | None]]:
    """nbgrader's automatic comment on each answer that is there."""
    blank = unchanged(document, notebook)
    present = {grade_id(cell) for cell in document["cells"]}
    for cell in notebook.cells:
        if cell.grade_id in present and (cell.solution or cell.task):
            yield cell.grade_id, "No response." if cell.grade_id in blank and not cell.task else None


def unchanged(document: Mapping[str, Any], notebook: Notebook) -> set[str]:
    """The answers that still read as they were released."""
    released = {cell.grade_id: cell.source for cell in notebook.cells if cell.solution}
    present = {name: cell["source"] for cell in document["cells"] if (name := grade_id(cell)) in released}
    return {name for name, source in present.items() if source == released[name]}
