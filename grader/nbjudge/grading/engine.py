"""(Submission, Assignment) → Result: a function of its inputs, known by their hash. No database, no shared state.

The notebook is restored from the Assignment and checked; the judge runs it; what it says becomes one Outcome per
question.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import nbformat

from nbjudge.course.intake import Unreadable, moment
from nbjudge.course.restore import grade_id, recognised, restored, shortened
from nbjudge.errors import SandboxError
from nbjudge.grading import questions
from nbjudge.grading.clean import few
from nbjudge.grading.outputs import CELLS
from nbjudge.grading.trial import RunNotebook
from nbjudge.model import Assignment, Ending, Executed, Graded, Limits, Notebook, Outcome, Result, Submission

REPAIRS = 10  # of a notebook's metadata that are told one by one
TOO_MUCH = "[The outputs of this notebook are more than is kept.]\n"
ENGINE_VERSION = 9  # raise it when the same submission may get another score than before


@lru_cache(maxsize=1)
def environment() -> dict[str, str]:
    """What decides scores besides the inputs: this engine, Python, the packages that make values and checks."""
    packages = ("torch", "nbgrader", "seegrad")
    return {
        "engine": str(ENGINE_VERSION),
        "python": platform.python_version(),
        **{name: _version(name) for name in packages},
    }


def _version(package: str) -> str:
    """Of a package that a course may do without."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def key(submission: Submission, assignment: Assignment) -> str:
    """What a Result depends on, as a hash: both inputs, and this environment."""
    parts = (_written_down(assignment), _json(_hashable(asdict(submission))))
    return hashlib.sha256(f"[{_json(sorted(environment().items()))}, {', '.join(parts)}]".encode()).hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


class _Once:
    """The last assignment's text: all of a class ask for it, and it is most of what a key is made of."""

    last: tuple[Assignment | None, str] = (None, "")


def _written_down(assignment: Assignment) -> str:
    known, text = _Once.last
    if known is not assignment:
        text = _json(_hashable(asdict(assignment)))
        _Once.last = assignment, text
    return text


def content(submission: Submission) -> str:
    """What was handed in, whenever and by whomever, as a hash."""
    parts = _hashable({"notebooks": submission.notebooks, "files": submission.files, "refusal": submission.refusal})
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def grade(submission: Submission, assignment: Assignment, run: RunNotebook, *, give_up: bool) -> Result:
    """The submission graded, refused with its reason, or marked as our own failure. Never raises for a submission.

    With `give_up` an exception of ours becomes a failure of this submission alone; else it is raised.
    """
    blank = Result(key(submission, assignment), submission.student, submission.assignment, submission.timestamp)
    try:
        handed_in = _present(submission, assignment)
        wanted = assignment.notebooks
        graded, runs = zip(*(_graded(handed_in, notebook, assignment, run) for notebook in wanted), strict=True)
    except Unreadable as refusal:
        return replace(blank, refusal=str(refusal))
    except SandboxError:  # this machine's, not this submission's
        raise
    except Exception as error:
        if not give_up:
            raise
        return failure(blank, assignment, f"{type(error).__name__}: {error}")
    return replace(
        blank,
        notebooks=questions.within_the_tenth(questions.held(graded)),
        wall_s=sum(run.wall_s for run in runs),
        cpu_s=sum(run.cpu_s for run in runs),
    )


def failure(blank: Result, assignment: Assignment, reason: str) -> Result:
    """Every question of `assignment` left ungraded, because the grader itself failed."""
    notebooks = []
    for notebook in assignment.notebooks:
        asked = questions.carrying_points(notebook)
        lost = (Outcome(cell.grade_id, Ending.GRADER_FAILURE, None, cell.points, reason) for cell in asked)
        notebooks.append(Graded(notebook.name, "", tuple(lost)))
    return replace(blank, notebooks=tuple(notebooks))


def _present(submission: Submission, assignment: Assignment) -> Submission:
    """The submission with the assignment's notebooks under their names; refuses one that has none of them."""
    if submission.refusal:
        raise Unreadable(submission.refusal)
    notebooks, _ = recognised(submission.notebooks, assignment.notebooks)
    if not notebooks:
        wanted = assignment.notebooks[0].name
        found = ", ".join(repr(f"{name}.ipynb") for name in sorted(submission.notebooks)[:5]) or "no notebook"
        raise Unreadable(f"the notebook {wanted + '.ipynb'!r} is missing; found: {found}")
    return replace(submission, notebooks={**submission.notebooks, **notebooks})


def _graded(
    submission: Submission, notebook: Notebook, assignment: Assignment, run: RunNotebook
) -> tuple[Graded, Executed]:
    text = submission.notebooks.get(notebook.name)
    if text is None:
        return _missing(notebook), Executed({}, ())
    repaired = restored(text, notebook)
    document = repaired.document
    document["metadata"]["student"] = submission.student
    if assignment.places is None:
        document["metadata"]["record"] = submission.student.startswith(questions.REFERENCE)
    else:
        document["metadata"]["places"] = assignment.places.get(notebook.name, {})
    if assignment.effects is not None:
        document["metadata"]["effects"] = assignment.effects.get(notebook.name, {})
    ran = run(document, {**submission.files, **assignment.files}, assignment)
    outcomes = tuple(questions.outcomes(document, notebook, ran))
    comments = dict(questions.comments(document, notebook))
    answers = questions.answers(document, notebook, submission.files)
    notes = (
        *_name_notes(submission, notebook),
        *few(repaired.notes, REPAIRS),
        *ran.notes,
        *_timestamp_notes(submission),
    )
    return Graded(
        notebook.name,
        _finished(ran.notebook, ran.outcomes, assignment.limits),
        outcomes,
        comments,
        answers,
        lost=questions.lost(document, notebook),
        died=ran.died,
        notes=notes,
    ), ran


def _missing(notebook: Notebook) -> Graded:
    """nbgrader's own meaning of a notebook that isn't there while others are: zero for each question."""
    outcomes = tuple(
        Outcome(cell.grade_id, Ending.NOT_ANSWERED, 0.0, cell.points, "The notebook is missing.")
        for cell in questions.carrying_points(notebook)
    )
    return Graded(notebook.name, "", outcomes, missing=True)


def _name_notes(submission: Submission, notebook: Notebook) -> Iterable[str]:
    """A notebook that is there under two names was handed in under the other one."""
    text = submission.notebooks[notebook.name]
    others = [name for name, other in submission.notebooks.items() if other is text and name != notebook.name]
    return [f"the notebook was handed in as {f'{name}.ipynb'!r}" for name in others[:1]]


def _timestamp_notes(submission: Submission) -> Iterable[str]:
    if submission.timestamp and moment(submission.timestamp) is None:
        yield f"the timestamp {submission.timestamp[:60]!r} can't be read; lateness was not judged"


def _finished(document: Mapping[str, Any], verdicts: Iterable[Outcome], limits: Limits) -> str:
    """The executed notebook as it is kept: nbgrader's limit of lines, this kernel's language.

    A question that earned a part gets its message too: a stock cell would show the fraction alone. Outputs that have
    grown since they came (cleaned HTML closes what was open) beyond twice their bound are left out.
    """
    node = _node(document)
    partly = {outcome.grade_id: outcome.message for outcome in verdicts if outcome.kind is Ending.PARTLY}
    for cell in node.cells:
        if cell.cell_type == "code":
            said = partly.get(grade_id(cell) or "")
            if said:
                shown = {"output_type": "display_data", "data": {"text/plain": said}, "metadata": {}}
                cell.outputs.append(_node(shown))
    node = shortened(node)
    node.metadata = _node({"kernelspec": node.metadata.get("kernelspec", {}), "language_info": language()})
    text = _written(node)
    if len(text) <= limits.notebook_bytes + 2 * CELLS * limits.output_bytes:
        return text
    for cell in node.cells:
        if cell.get("outputs"):
            cell.outputs = [_node({"output_type": "stream", "name": "stdout", "text": TOO_MUCH})]
    return _written(node)


def _written(node: Mapping[str, Any]) -> str:
    """One line a cell: as nbformat writes it, each text split, it takes a third of our part of a submission."""
    rest = {name: part for name, part in node.items() if name != "cells"}
    return '{"cells": [\n' + ",\n".join(map(_line, node["cells"])) + "\n]," + _line(rest)[1:] + "\n"


def _line(part: Mapping[str, Any]) -> str:
    return json.dumps(part, sort_keys=True, ensure_ascii=False)


def _node(document: Any) -> Any:
    return nbformat.from_dict(document)  # type: ignore[no-untyped-call] # nbformat types it nowhere


@lru_cache(maxsize=1)
def language() -> dict[str, Any]:
    """What a Python kernel says of itself; never what a submission says."""
    return {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
        "version": platform.python_version(),
    }


def _hashable(value: Any) -> Any:
    """Bytes as their digest, so that JSON can hold them."""
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, Mapping):
        return {name: _hashable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hashable(item) for item in value]
    return value
