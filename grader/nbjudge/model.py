"""What the grader passes from stage to stage, as frozen data: no torch, no nbgrader, no I/O.

folder ─ intake ─▶ Submission ─┐
gradebook ─ record ─▶ Assignment ┴─ engine ─▶ Result ─ record ─▶ gradebook
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

EMPTY: Mapping[str, Any] = MappingProxyType({})
Places: TypeAlias = Mapping[str, Mapping[str, tuple[str, ...]]]  # question → place → what a reference answer showed


Effects = Mapping[str, Mapping[str, tuple[str, ...]]]  # notebook → question → places that the reference changes


def digest(text: str) -> str:
    """A text as 64 characters, to be compared later.

    >>> digest("Because.") == digest("Because!")
    False
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Ending(enum.StrEnum):
    """How one question ended. Only the judge decides it."""

    PASSED = "passed"
    FAILED = "failed"
    PARTLY = "partly"
    NOT_ANSWERED = "not answered"
    CRASHED = "crashed"
    NOT_REACHED = "not reached"  # the program had ended in an earlier question
    TIMED_OUT = "timed out"
    REFUSED = "refused"
    GRADER_FAILURE = "grader failure"
    BY_HAND = "by hand"  # a written answer: a person reads it, `points` is None until then


CELL_TIMEOUT = "CellTimeoutError"  # as Jupyter calls it where a cell was stopped

VERDICTS = frozenset(Ending) - {Ending.NOT_ANSWERED, Ending.GRADER_FAILURE, Ending.BY_HAND}  # of an answer's tests


@dataclass(frozen=True, slots=True)
class Limits:
    """What one submission may use."""

    cell_s: float = 30.0
    notebook_s: float = 120.0
    cpu_s: int = 120
    memory_bytes: int = 4 << 30
    processes: int = 64
    files: int = 256
    file_bytes: int = 64 << 20
    output_bytes: int = 8 << 20  # of one cell, twice that of all cells together
    notebook_bytes: int = 16 << 20  # a submitted .ipynb
    submission_bytes: int = 64 << 20  # all files of a submission together


@dataclass(frozen=True, slots=True)
class Submission:
    """One student's folder, read. `refusal` says why it can't be graded (then `notebooks` may be empty)."""

    student: str
    assignment: str
    notebooks: Mapping[str, str] = field(default_factory=dict)  # name without .ipynb → text
    files: Mapping[str, bytes] = field(default_factory=dict)  # other files, relative path → bytes
    timestamp: str | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class SourceCell:
    """One nbgrader cell of the assignment, as the gradebook holds it."""

    grade_id: str
    cell_type: str
    source: str
    checksum: str | None
    points: float
    grade: bool
    solution: bool
    locked: bool
    task: bool


@dataclass(frozen=True, slots=True)
class Naming:
    """Whose each global name of a notebook is: the answer's, or the test's."""

    asked: tuple[str, ...] = ()  # what an answer binds or changes, and what the release makes of that
    classes: tuple[str, ...] = ()  # of these, what the released answers define as classes
    imported: tuple[tuple[str, str], ...] = ()  # by an answer: it has to be there, and the judge's own is used
    told: tuple[str, ...] = ()  # what functions of the answers read, or bind: they notice where a test does so
    rebound: tuple[str, ...] = ()  # what functions of the answers bind by `global`: a test notices
    setup: tuple[tuple[str, tuple[str, ...]], ...] = ()  # test → statements of the release that the judge runs before
    renewed: tuple[tuple[str, tuple[str, ...]], ...] = ()  # test → asked names that answers bind since the one before
    brought: tuple[tuple[str, tuple[str, ...]], ...] = ()  # test → its imports that answers, and only they, need
    unknown: tuple[tuple[str, str, int], ...] = ()  # test, name, line: read by a test, and nobody gives it a value


@dataclass(frozen=True, slots=True)
class Notebook:
    """One notebook of the assignment."""

    name: str
    kernelspec: str
    cells: tuple[SourceCell, ...]
    naming: Naming = Naming()
    shown: tuple[str, ...] = ()  # cells of the release that only show a picture: drawn once for a class


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is to be graded: cells, seed of the secret inputs, limits. Its hash is part of each Result's key."""

    name: str
    notebooks: tuple[Notebook, ...]
    seed: int
    limits: Limits = Limits()
    files: Mapping[str, bytes] = field(default_factory=dict)  # the course's own data, laid over the student's files
    effects: Effects | None = None  # None: nobody has graded the reference
    places: Mapping[str, Places] | None = None  # notebook → what the reference answer showed; None without one


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one test cell yielded. `points` is None where the grader itself failed: ungraded, never zero."""

    grade_id: str
    kind: Ending
    points: float | None
    max_points: float
    message: str = ""
    misconceptions: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()  # what it rests on that only the student's process said
    alone: bool = False  # does it rest on nothing else?
    changed: tuple[str, ...] = ()  # where the answer has changed what the test had passed: `fit.0`, first argument
    hidden: bool = False  # does the message tell of a hidden test?
    reproduce: str = ""  # the failing case as code
    line: int = 0  # of the test cell, where it failed or waited; 0: not known
    held: bool = True  # does it stay when the answer gets clones of what the reference leaves alone?
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # what a reference answer showed where


@dataclass(frozen=True, slots=True)
class Executed:
    """What the two processes yielded for one notebook. `notebook` is nbformat 4 JSON with outputs."""

    notebook: Mapping[str, Any]
    outcomes: tuple[Outcome, ...]
    died: str | None = None  # why the student's process ended early
    wall_s: float = 0.0
    cpu_s: float = 0.0
    notes: tuple[str, ...] = ()  # for the instructor


@dataclass(frozen=True, slots=True)
class Graded:
    """One notebook of a Result. `comments`: solution cell → nbgrader's auto comment (`No response.`) or None."""

    name: str
    notebook: str  # executed, as JSON text; "" when missing
    outcomes: tuple[Outcome, ...]
    comments: Mapping[str, str | None] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)  # question → digest of what was answered
    missing: bool = False
    lost: tuple[str, ...] = ()  # answer cells that weren't in what was handed in
    died: str | None = None
    notes: tuple[str, ...] = ()  # for the instructor


@dataclass(frozen=True, slots=True)
class Result:
    """One graded, or refused, submission. `key` hashes everything that it depends on."""

    key: str
    student: str
    assignment: str
    timestamp: str | None
    notebooks: tuple[Graded, ...] = ()
    refusal: str | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def score(self) -> float:
        """Points reached; an ungraded question counts as none here."""
        return sum(outcome.points or 0.0 for graded in self.notebooks for outcome in graded.outcomes)

    @property
    def max_score(self) -> float:
        """Points that could be reached; 0 for a refused submission."""
        return sum(outcome.max_points for graded in self.notebooks for outcome in graded.outcomes)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of all notebooks, in order."""
        return tuple(outcome for graded in self.notebooks for outcome in graded.outcomes)

    @property
    def places(self) -> Mapping[str, Places]:
        """What a reference answer showed in each notebook."""
        return {
            graded.name: {outcome.grade_id: outcome.places for outcome in graded.outcomes} for graded in self.notebooks
        }

    @property
    def failed_by_us(self) -> bool:
        """Whether the grader itself failed somewhere: such a result is reported."""
        return any(outcome.kind is Ending.GRADER_FAILURE for outcome in self.outcomes)

    @property
    def void(self) -> bool:
        """Whether the grader failed, and no question got a verdict: it is tried again, and was no attempt."""
        return self.failed_by_us and not any(outcome.kind in VERDICTS for outcome in self.outcomes)

    def to_json(self) -> str:
        """One line of JSON; `from_json` reads it back.

        >>> result = Result("k", "ada", "ps1", None, refusal="no notebook")
        >>> Result.from_json(result.to_json()) == result
        True
        """
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Result:
        """The Result that `to_json` wrote; `KeyError`, `TypeError` or `ValueError` for anything else."""
        fields = json.loads(text)
        notebooks = tuple(_graded(notebook) for notebook in fields.pop("notebooks"))
        return cls(notebooks=notebooks, **fields)


def _graded(fields: dict[str, Any]) -> Graded:
    outcomes = tuple(_outcome(outcome) for outcome in fields.pop("outcomes"))
    for name in ("notes", "lost"):
        fields[name] = tuple(fields.get(name, ()))
    return Graded(outcomes=outcomes, **fields)


def _outcome(fields: dict[str, Any]) -> Outcome:
    kind = Ending(fields.pop("kind"))
    for name in ("misconceptions", "claims", "changed"):
        fields[name] = tuple(fields.get(name, ()))
    fields["places"] = {place: tuple(roles) for place, roles in fields.get("places", {}).items()}
    return Outcome(kind=kind, **fields)
