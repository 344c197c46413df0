"""(Submission, Assignment) → Result: a function of its inputs, known by their hash. No database, no shared state.

nbgrader's own preprocessors restore and check the notebook, against the Assignment instead of a gradebook; the judge
runs it; what it says becomes one Outcome per question.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from importlib.metadata import version
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import nbformat
from nbgrader.api import MissingEntry
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.preprocessors import LimitOutput, OverwriteCells
from nbgrader.utils import parse_utc

from nbjudge.course.notebook import Unreadable
from nbjudge.course.recover import recognised
from nbjudge.course.restore import grade_id, restored
from nbjudge.course.shown import safe_outputs
from nbjudge.errors import SandboxError
from nbjudge.grading import questions
from nbjudge.model import Assignment, Graded, Kind, Notebook, Outcome, Result, Run, Submission

if TYPE_CHECKING:
    from nbjudge.process.zygote import Zygote

ENGINE_VERSION = 3  # raise it when the same submission may get another score than before
Runner = Callable[[Mapping[str, Any], Mapping[str, bytes], Assignment], Run]
KNOWN_MARKS = 1 << 12
QUIET = logging.getLogger("grader.quiet")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


@lru_cache(maxsize=1)
def environment() -> dict[str, str]:
    """What decides scores besides the inputs: this engine, Python, the packages that make values and checks."""
    packages = ("torch", "nbgrader", "seegrad")
    return {
        "engine": str(ENGINE_VERSION),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def key(submission: Submission, assignment: Assignment) -> str:
    """What a Result depends on, as a hash: both inputs, and this environment."""
    parts = (
        sorted(environment().items()),
        _hashable(asdict(assignment)),
        _hashable(asdict(submission)),
    )
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def grade(submission: Submission, assignment: Assignment, zygote: Zygote) -> Result:
    """The submission graded, refused with its reason, or marked as our own failure. Never raises for a submission."""
    return attempt(submission, assignment, judged_by(zygote), give_up=True)


def judged_by(zygote: Zygote) -> Runner:
    """The judge on a warm zygote, as `attempt` calls it."""
    from nbjudge.grading.judge import run_notebook

    def run(document: Mapping[str, Any], files: Mapping[str, bytes], assignment: Assignment) -> Run:
        return run_notebook(document, files, zygote=zygote, seed=assignment.seed, limits=assignment.limits)

    return run


def attempt(submission: Submission, assignment: Assignment, run: Runner, *, give_up: bool) -> Result:
    """Like `grade`, with any judge. With `give_up` an exception of ours becomes a failure of this submission alone."""
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
        notebooks=questions.within_the_tenth(graded),
        wall_s=sum(run.wall_s for run in runs),
        cpu_s=sum(run.cpu_s for run in runs),
    )


def failure(blank: Result, assignment: Assignment, reason: str) -> Result:
    """Every question of `assignment` left ungraded, because the grader itself failed."""
    notebooks = []
    for notebook in assignment.notebooks:
        asked = questions.carrying_points(notebook)
        lost = (Outcome(cell.grade_id, Kind.GRADER_FAILURE, None, cell.points, reason) for cell in asked)
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


def _graded(submission: Submission, notebook: Notebook, assignment: Assignment, run: Runner) -> tuple[Graded, Run]:
    text = submission.notebooks.get(notebook.name)
    if text is None:
        return _missing(notebook), Run({}, ())
    repaired = restored(text, notebook)
    document = _overwritten(repaired.document, notebook)
    files = {**submission.files, **assignment.files}
    ran = run(document, files, assignment)
    outcomes = tuple(questions.outcomes(document, notebook, ran.outcomes))
    comments = dict(questions.comments(document, notebook))
    notes = (*_name_notes(submission, notebook), *repaired.notes, *_timestamp_notes(submission))
    return Graded(
        notebook.name, _finished(ran.notebook, ran.outcomes), outcomes, comments, died=ran.died, notes=notes
    ), ran


def _missing(notebook: Notebook) -> Graded:
    """nbgrader's own meaning of a notebook that isn't there while others are: zero for each question."""
    outcomes = tuple(
        Outcome(cell.grade_id, Kind.NOT_ANSWERED, 0.0, cell.points, "The notebook is missing.")
        for cell in questions.carrying_points(notebook)
    )
    return Graded(notebook.name, "", outcomes, missing=True)


def _name_notes(submission: Submission, notebook: Notebook) -> Iterable[str]:
    """A notebook that is there under two names was handed in under the other one."""
    text = submission.notebooks[notebook.name]
    others = [name for name, other in submission.notebooks.items() if other is text and name != notebook.name]
    return [f"the notebook was handed in as {f'{name}.ipynb'!r}" for name in others[:1]]


def _timestamp_notes(submission: Submission) -> Iterable[str]:
    if not submission.timestamp:
        return
    try:
        parse_utc(submission.timestamp)
    except (ValueError, OverflowError):
        yield f"the timestamp {submission.timestamp[:60]!r} can't be read; lateness was not judged"


# --- nbgrader's preprocessors, against an Assignment -----------------------------------------------------------------


class _Rows:
    """What OverwriteCells asks of a Gradebook."""

    def __init__(self, notebook: Notebook) -> None:
        self._cells = {cell.grade_id: cell for cell in notebook.cells}

    def find_source_cell(self, name: str, _notebook: str, _assignment: str) -> SimpleNamespace:
        cell = self._cells.get(name)
        if cell is None:
            raise MissingEntry(name)
        return SimpleNamespace(
            name=name,
            cell_type=cell.cell_type,
            locked=cell.locked,
            source=cell.source,
            checksum=cell.checksum,
            max_score=cell.points,
        )

    find_graded_cell = find_source_cell


class _OverwriteFromRows(OverwriteCells):  # type: ignore[misc] # nbgrader ships no types
    """nbgrader's step with the rows handed in instead of read from a database."""

    def __init__(self, notebook: Notebook) -> None:
        super().__init__(log=QUIET)
        self.gradebook = _Rows(notebook)
        self.notebook_id, self.assignment_id = notebook.name, ""

    def run(self, document: Any) -> Any:
        for index, cell in enumerate(document.cells):
            document.cells[index], _ = self.preprocess_cell(cell, {}, index)
        return document


class _Marks(MetadataValidator):  # type: ignore[misc] # nbgrader ships no types
    """nbgrader's check of its metadata; what has passed once passes again, and most of it is the same for a class."""

    def __init__(self) -> None:
        super().__init__()
        self.log = QUIET
        self._passed: set[str] = set()

    def validate_cell(self, cell: Any) -> None:
        marks = json.dumps([cell.cell_type, cell.metadata.get("nbgrader")], sort_keys=True)
        if marks not in self._passed:
            super().validate_cell(cell)
            if len(self._passed) < KNOWN_MARKS:
                self._passed.add(marks)


@lru_cache(maxsize=1)
def _marks() -> _Marks:
    return _Marks()


def _overwritten(document: Mapping[str, Any], notebook: Notebook) -> dict[str, Any]:
    node = _OverwriteFromRows(notebook).run(_node(document))
    _marks().validate_nb(node)
    return dict(json.loads(json.dumps(node)))


def _finished(document: Mapping[str, Any], verdicts: Iterable[Outcome]) -> str:
    """The executed notebook as it is kept: safe outputs, nbgrader's limit of lines, this kernel's language.

    A question that earned a part gets its message too: a stock cell would show the fraction alone.
    """
    node = _node(document)
    partly = {outcome.grade_id: outcome.message for outcome in verdicts if outcome.kind is Kind.PARTLY}
    for cell in node.cells:
        if cell.cell_type == "code":
            said = partly.get(grade_id(cell) or "")
            shown = [{"output_type": "display_data", "data": {"text/plain": said}}] if said else []
            cell.outputs = _node(safe_outputs([*cell.outputs, *shown]))
    node, _ = LimitOutput(log=QUIET).preprocess(node, {})
    _marks().validate_nb(node)
    node.metadata = _node({"kernelspec": node.metadata.get("kernelspec", {}), "language_info": language()})
    return _text(node)


def _node(document: Any) -> Any:
    return nbformat.from_dict(document)  # type: ignore[no-untyped-call] # nbformat types it nowhere


def _text(node: Any) -> str:
    return str(nbformat.writes(node))  # type: ignore[no-untyped-call] # nbformat types it nowhere


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
