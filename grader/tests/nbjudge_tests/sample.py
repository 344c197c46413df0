"""An assignment of one notebook, as the gradebook keeps it, and what is handed in for it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import nbformat

from nbjudge.course.naming import naming, written
from nbjudge.model import Assignment, Notebook, SourceCell, Submission

STUB = "def f(x):\n    raise NotImplementedError()"


def row(name: str, source: str, kind: str = "code", points: float = 0.0, **flags: bool) -> SourceCell:
    from nbgrader.utils import compute_checksum

    given = {"grade": False, "solution": False, "locked": False, "task": False, **flags}
    meta = {"grade_id": name, "points": points, "schema_version": 3, **given}
    node = nbformat.from_dict({"cell_type": kind, "source": source, "metadata": {"nbgrader": meta}})
    return SourceCell(name, kind, source, compute_checksum(node), points, **given)


NOTE = row("setup", "import math", locked=True)


ANSWER = row("f", STUB, solution=True)


TEST = row("f_test", "assert f(1) == 1", points=2, grade=True, locked=True)


ESSAY = row("why", "YOUR ANSWER HERE", "markdown", 3, grade=True, solution=True)


TASK = row("draw", "Draw.", "markdown", 1, task=True, locked=True)


CELLS = (NOTE, ANSWER, TEST, ESSAY, TASK)


BOOK = Notebook("ps1", '{"name": "python3"}', CELLS, naming(written(CELLS, None), complete=False))


ASSIGNMENT = Assignment("ps1", (BOOK,), seed=7)


def cell(
    source: str, name: str | None = None, kind: str = "code", cell_id: str = "", **metadata: Any
) -> dict[str, Any]:
    meta = metadata | ({"nbgrader": {"grade_id": name}} if name else {})
    made = {"cell_type": kind, "source": source, "metadata": meta, "id": cell_id or f"id{abs(hash((source, name)))}"}
    return made | ({"outputs": [], "execution_count": None} if kind == "code" else {})


def handed_in(*cells: dict[str, Any], **fields: Any) -> Submission:
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    return replace(Submission("ada", "ps1", {"ps1": text}), **fields)


COMPLETE = (
    cell("import os; 'edited'", "setup"),
    cell("f = lambda x: x", "f"),
    cell("pass", "f_test"),
    cell("Since.", "why", "markdown"),
    cell("Draw.", "draw", "markdown"),
)
