"""What the grader passes from stage to stage, as frozen data: no torch, no nbgrader, no I/O.

    folder ─ intake ─▶ Submission ─┐
    gradebook ─ record ─▶ Assignment ┴─ engine ─▶ Result ─ record ─▶ gradebook
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

EMPTY: Mapping[str, Any] = MappingProxyType({})


class Kind(enum.StrEnum):
    """How one question ended. Only the judge decides it."""

    PASSED = "passed"
    FAILED = "failed"
    PARTLY = "partly"
    NOT_ANSWERED = "not answered"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    REFUSED = "refused"
    GRADER_FAILURE = "grader failure"


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
    output_bytes: int = 8 << 20
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
class Cell:
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
class Notebook:
    """One notebook of the assignment."""

    name: str
    kernelspec: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is to be graded: cells, seed of the secret inputs, limits. Its hash is part of each Result's key."""

    name: str
    notebooks: tuple[Notebook, ...]
    seed: int
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one test cell yielded. `points` is None where the grader itself failed: ungraded, never zero."""

    grade_id: str
    kind: Kind
    points: float | None
    max_points: float
    message: str = ""
    misconceptions: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()  # what it rests on that only the student's process said


@dataclass(frozen=True, slots=True)
class Run:
    """What the two processes yielded for one notebook. `notebook` is nbformat 4 JSON with outputs."""

    notebook: Mapping[str, Any]
    outcomes: tuple[Outcome, ...]
    died: str | None = None  # why the student's process ended early
    wall_s: float = 0.0
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Graded:
    """One notebook of a Result. `comments`: solution cell → nbgrader's auto comment (`No response.`) or None."""

    name: str
    notebook: str  # executed, as JSON text; "" when missing
    outcomes: tuple[Outcome, ...]
    comments: Mapping[str, str | None] = field(default_factory=dict)
    missing: bool = False
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
