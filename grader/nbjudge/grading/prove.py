"""Is each question proved? Wrong answers that nobody deserves points for are handed in, and may not get them.

The release as it is, and what `adversary` makes of the reference answer: each is one more submission.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nbjudge.course.naming import Written, naming
from nbjudge.course.restore import grade_id
from nbjudge.grading import adversary
from nbjudge.model import Assignment, Ending, Notebook, Result, SourceCell, Submission
from nbjudge.shown.text import counted

STUB = "stub"
KINDS = {
    STUB: "the release as it is",
    "zeroed": "makes 0 of every argument that can be changed, or where none can of the numbers, then answers for these",
    "ones": "the same with 1",
    "empties": "empties the arguments of the first question, and gives 0, or nothing, in those that come later",
    "first": "returns its first argument",
    "none": "returns None",
    "nan": "the right shape, full of NaN",
    "zeros": "the right shape, full of 0; the right type, empty",
    "hollow": "the right type, or an array, with nothing in it",
    "infinite": "the right shape, full of infinity",
    "agrees": "an object that says yes to everything",
    "liar": "a wrong value of the right type, whose class says that it equals everything",
    "constant": "the right answer to the first call, always",
    "swapped": "the first two arguments in the other order",
    "rounded": "the right answer, rounded to whole numbers",
    "short": "the right answer up to its first item",
    "raises": "raises a ValueError, always",
    "silent": "the right answer, and None where that raises an error",
    "claims": "objects with the right attributes that say they equal everything; what should be a new one is the old",
    "odd": "None from every other function or method, the others right",
    "even": "the same, beginning with the second",
}
NOTHING_RIGHT = frozenset({STUB, "none", "nan", "agrees", "liar"})  # any point at all is one too many
ALLOWED = re.compile(r"^\s*#+ *prove:(.*)$", re.MULTILINE)
REPORT = "_prove_.report()"
OPEN = "{question} gives {points:g} of {full} to {kind!r}: {said}"
CURE = (
    "Strengthen the test; where such an answer deserves the points, say so in the test cell: `# prove: {kind}`. "
    "`nbjudge prove {name}` shows the table."
)
CLOSED = "None of these adversaries gets points from a question."
HARD_CODED = (
    "Results that are written down beforehand pass {questions}: of an answer there, one result alone is asked for. Ask "
    "for another one, with other arguments, where the answer is to be computed."
)
STRANGE = "{question} says `# prove: {kind}`, which is no adversary; they are {known}"
WORDS = {
    "PASSED": "gets points that it shouldn't",
    "allowed": "the same, and the test cell says that it may",
    "caught": "doesn't",
    "same": "did nothing there that the reference doesn't, so it isn't one for that question",
}

Run = Callable[[Iterable[Submission]], Iterator[tuple[Submission, Result]]]


@dataclass(frozen=True, slots=True)
class Challenge:
    """One adversary at one question."""

    notebook: str
    question: str
    kind: str
    points: float
    max_points: float
    differed: bool  # did it do anything that the reference wouldn't?
    allowed: bool  # does the question say that it may pass?

    @property
    def passed(self) -> bool:
        """Did it get points that it shouldn't have?"""
        enough = self.points > 0 if self.kind in NOTHING_RIGHT else self.points >= self.max_points
        return enough and self.points > 0 and self.differed

    @property
    def open(self) -> bool:
        """The same, where the question doesn't say that this is meant."""
        return self.passed and not self.allowed


@dataclass(frozen=True, slots=True)
class Proof:
    """Every adversary at every question that a machine grades."""

    assignment: str
    tried: tuple[Challenge, ...]
    strange: tuple[tuple[str, str], ...] = ()  # a question, and a word after its `# prove:` that is no adversary

    @property
    def open(self) -> tuple[Challenge, ...]:
        """Where points are to be had for nothing."""
        return tuple(one for one in self.tried if one.open)

    @property
    def single(self) -> tuple[str, ...]:
        """The questions of which an answer is called, and passes where its calls all give the same."""
        called = {(one.notebook, one.question) for one in self.tried if one.kind == "raises" and one.differed}
        same = (one for one in self.tried if one.kind == "constant" and one.points > 0 and not one.differed)
        return tuple(one.question for one in same if (one.notebook, one.question) in called)

    def closing(self) -> list[str]:
        """What is said below the table."""
        told = self.sentences() or [CLOSED]
        return [*told, *([HARD_CODED.format(questions=", ".join(self.single))] if self.single else [])]

    def sentences(self) -> list[str]:
        """One for each open question and adversary, and what to do; one for each word that is no adversary."""
        said = [
            OPEN.format(
                question=one.question,
                points=one.points,
                full=counted(one.max_points, "point"),
                kind=one.kind,
                said=KINDS[one.kind],
            )
            for one in self.open
        ]
        cure = [CURE.format(kind=one.kind, name=self.assignment) for one in self.open[:1]]
        known = ", ".join(KINDS)
        return [
            *said,
            *cure,
            *(STRANGE.format(question=question, kind=kind, known=known) for question, kind in self.strange),
        ]


def prove(reference: Submission, assignment: Assignment, run: Run) -> Proof:
    """Hands in every adversary; `run` grades them as it grades students' submissions."""
    handed_in = {kind: adversarial(kind, reference, assignment) for kind in KINDS}
    kinds = {submission.student: kind for kind, submission in handed_in.items()}
    found = {kinds[submission.student]: result for submission, result in run(handed_in.values())}
    tried = tuple(one for kind in KINDS for one in _tried(kind, found[kind], assignment))
    return Proof(assignment.name, tried, tuple(_strange(assignment)))


def _strange(assignment: Assignment) -> Iterator[tuple[str, str]]:
    for row in (row for book in assignment.notebooks for row in book.cells if _is_test(row)):
        yield from ((row.grade_id, kind) for kind in sorted(allowed_by(row.source) - set(KINDS)))


def adversarial(kind: str, reference: Submission, assignment: Assignment) -> Submission:
    """What this adversary hands in."""
    books = {book.name: book for book in assignment.notebooks}
    texts = {
        name: _made(kind, text, books[name]) if name in books else text for name, text in reference.notebooks.items()
    }
    return replace(reference, student=f"{reference.student}: {kind}", notebooks=texts)


def _made(kind: str, text: str, book: Notebook) -> str:
    document = json.loads(text)
    rows = {row.grade_id: row for row in book.cells}
    cells = [] if kind == STUB else [_cell(_prelude(kind), "prelude")]
    for number, cell in enumerate(document["cells"]):
        row = rows.get(grade_id(cell) or "")
        if kind == STUB and row is not None and row.solution:
            cell["source"] = row.source
        cells.append(cell)
        if kind != STUB and row is not None and row.cell_type == "code":
            if row.solution and (names := _answered(row, cell["source"], book)):
                cells.append(_cell(f"_prove_.replace(globals(), {names!r})", f"replace-{number}"))
            elif _is_test(row):
                cells.append(_cell(f"print({REPORT})", f"report-{row.grade_id}"))
    return json.dumps({**document, "cells": cells})


def _answered(row: SourceCell, solved: str, book: Notebook) -> list[str]:
    """The names that the release asks an answer for; where it leaves them open, those that the tests read."""
    wanted = naming([Written("answer", (row.source,))]).asked
    if wanted:
        return list(wanted)
    tests = "\n".join(cell.source for cell in book.cells if _is_test(cell))
    return [name for name in naming([Written("answer", (solved,))]).asked if re.search(rf"\b{name}\b", tests)]


def _prelude(kind: str) -> str:
    """The adversary's own code, in a module of its own, so that it gives a notebook one name only."""
    source = inspect.getsource(adversary)
    return (
        "import types as _types_\n_prove_ = _types_.ModuleType('_prove_')\n"
        f"exec({source!r}, _prove_.__dict__)\n_prove_ = _prove_.Adversary({kind!r})"
    )


def _cell(source: str, name: str) -> dict[str, Any]:
    shown = re.sub("[^A-Za-z0-9_-]", "-", f"prove-{name}")[:64]
    return {"cell_type": "code", "id": shown, "metadata": {}, "source": source, "outputs": [], "execution_count": None}


def _is_test(row: SourceCell) -> bool:
    return row.grade and not row.solution and row.cell_type == "code"


def _tried(kind: str, result: Result, assignment: Assignment) -> Iterator[Challenge]:
    graded = {one.name: one for one in result.notebooks}
    for book in assignment.notebooks:
        tests = {row.grade_id: row for row in book.cells if _is_test(row) and row.points}
        differed = None if kind == STUB else _differed(graded[book.name].notebook)
        for outcome in graded[book.name].outcomes:
            if outcome.grade_id not in tests or outcome.kind is Ending.GRADER_FAILURE:
                continue
            other = differed is None or differed.get(_report_id(outcome.grade_id), False)
            allowed = kind in allowed_by(tests[outcome.grade_id].source)
            yield Challenge(
                book.name, outcome.grade_id, kind, outcome.points or 0.0, outcome.max_points, other, allowed
            )


def _report_id(question: str) -> str:
    return str(_cell("", f"report-{question}")["id"])


def _differed(text: str) -> Mapping[str, bool]:
    """By the id of each report's cell: did the adversary do anything of its own since the last one?"""
    found = {}
    for cell in json.loads(text)["cells"] if text else ():
        if "".join(cell["source"]) == f"print({REPORT})":
            said = "".join("".join(output.get("text", "")) for output in cell["outputs"])
            found[cell["id"]] = '"differed": true' in said
    return found


def allowed_by(source: str) -> frozenset[str]:
    """The adversaries that a test cell says may pass it, with commas or spaces between them.

    >>> sorted(allowed_by("# prove: stub, first none\\nassert f(1) == 1"))
    ['first', 'none', 'stub']
    """
    return frozenset(kind for found in ALLOWED.findall(source) for kind in found.replace(",", " ").split())


# ---------------------------------------------------------------------- as a person reads it


def table(proof: Proof) -> list[list[str]]:
    """A row for each question, a column for each adversary, with a head."""
    questions = list(dict.fromkeys((one.notebook, one.question) for one in proof.tried))
    tried = {(one.notebook, one.question, one.kind): one for one in proof.tried}
    rows = [[question, *(_word(tried.get((book, question, kind))) for kind in KINDS)] for book, question in questions]
    return [["question", *KINDS], *rows]


def _word(one: Challenge | None) -> str:
    if one is None:
        return "?"
    if one.open:
        return "PASSED"
    if one.passed:
        return "allowed"
    return "caught" if one.differed else "same"


def legend() -> Sequence[str]:
    """What the columns are, and the words in them."""
    return [f"{kind}: {said}" for kind, said in {**KINDS, **WORDS}.items()]
