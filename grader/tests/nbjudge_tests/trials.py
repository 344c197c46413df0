"""Small notebooks for the tests of the judge, and their runs."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

import nbformat
from nbgrader.preprocessors import Execute
from nbgrader.utils import determine_grade

from nbjudge.course.naming import Written, naming
from nbjudge.grading.trial import run_notebook
from nbjudge.model import Assignment, Ending, Executed, Limits, Outcome
from nbjudge.process.zygote import Zygote

LIMITS = Limits(cell_s=20, notebook_s=60)


def cell(source: str, **marks: Any) -> dict[str, Any]:
    """A code cell, with nbgrader's marks where there are any."""
    metadata = {"nbgrader": {"schema_version": 3, **marks}} if marks else {}
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": [], "execution_count": None}


def locked(source: str) -> dict[str, Any]:
    """An instructor's cell."""
    return cell(source, grade=False, solution=False, locked=True, grade_id="given")


def mine(source: str) -> dict[str, Any]:
    """A cell that the student has added."""
    return {**cell(source), "metadata": {"of": "the student"}}


def answer(source: str) -> dict[str, Any]:
    """A solution cell."""
    return cell(source, grade=False, solution=True, locked=False, grade_id="answer")


def check(source: str, grade_id: str = "q", points: float = 1) -> dict[str, Any]:
    """A test cell."""
    return cell(source, grade=True, solution=False, locked=True, grade_id=grade_id, points=points)


def notebook(*cells: dict[str, Any], reference: str | None = None) -> dict[str, Any]:
    """nbformat 4.5 JSON of these cells; the assignment asks for what its answers, or `reference`, give a value."""
    numbered = [{**content, "id": f"cell-{number}"} for number, content in enumerate(cells)]
    found = asdict(naming(written(cells, reference)))
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"naming": found}, "cells": numbered}


def written(cells: Iterable[Mapping[str, Any]], reference: str | None) -> list[Written]:
    """The cells as an assignment's."""
    found = []
    for content in (one for one in cells if one["metadata"].get("of") != "the student"):
        marks = content["metadata"].get("nbgrader", {})
        role = "answer" if marks.get("solution") else "test" if marks.get("grade") else "given"
        source = content["source"] if role != "answer" or reference is None else reference
        found.append(Written(role, (source,), marks.get("grade_id", "")))
    return found


def run(
    zygote: Zygote,
    *cells: dict[str, Any],
    limits: Limits = LIMITS,
    seed: int = 5,
    files: Mapping[str, bytes] | None = None,
    reference: str | None = None,
    beside: str | None = None,
) -> Executed:
    """Run a notebook of these cells, whose assignment asks for `reference`'s names; `beside` one that is run first."""
    book = notebook(*cells, reference=reference or beside)
    if beside is not None:
        book["metadata"]["places"] = showed(zygote, *cells, reference=beside, seed=seed)
    return run_notebook(zygote, book, files or {}, Assignment("", (), seed, limits))


def showed(zygote: Zygote, *cells: dict[str, Any], reference: str, seed: int = 5) -> dict[str, Any]:
    """What this reference answer shows at each place of these questions."""
    given = [answer(reference) if one["metadata"].get("nbgrader", {}).get("solution") else one for one in cells]
    book = notebook(*given)
    book["metadata"]["record"] = True
    outcomes = run_notebook(zygote, book, {}, Assignment("", (), seed, LIMITS)).outcomes
    assert not [outcome for outcome in outcomes if outcome.kind is Ending.FAILED], outcomes
    return {outcome.grade_id: outcome.places for outcome in outcomes}


def only(run: Executed) -> Outcome:
    """The outcome of a notebook's one question."""
    (outcome,) = run.outcomes
    return outcome


def printed(run: Executed, index: int) -> str:
    """What a cell wrote on its standard output."""
    outputs = run.notebook["cells"][index]["outputs"]
    return "".join(output["text"] for output in outputs if output.get("name") == "stdout")


def everything(run: Executed) -> str:
    """All that a run returns for others to read, as one text; a case as code stays in the grader's own folder."""
    outputs = [content.get("outputs") for content in run.notebook["cells"]]
    outcomes = [replace(outcome, reproduce="") for outcome in run.outcomes]
    return json.dumps(outputs) + repr(outcomes) + repr(run.died)


def stock_points(cells: list[dict[str, Any]]) -> list[float]:
    nodes = nbformat.from_dict(copy.deepcopy(notebook(*cells)))
    Execute().preprocess(nodes, {"metadata": {"path": "/tmp"}})
    marked = [content for content in nodes.cells if content.metadata.get("nbgrader", {}).get("grade")]
    return [determine_grade(content)[0] for content in marked]
