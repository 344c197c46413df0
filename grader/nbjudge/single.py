"""One answer and its tests, without a course or a gradebook: texts in, plain data out, for whoever checks programs.

The same two processes, the same walls and the same rules as for a class: see `SECURITY.md`.
"""

from __future__ import annotations

import ast
import codecs
import io
import re
import secrets
import tokenize
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat

from nbjudge.course import intake
from nbjudge.course.authoring import of_checks
from nbjudge.course.naming import Written, naming, plain
from nbjudge.course.restore import sealed
from nbjudge.errors import CourseError
from nbjudge.grading import engine, questions, trial
from nbjudge.model import Assignment, Ending, Limits, Notebook, Outcome, Result, SourceCell, Submission

NAME = "answer"
ANSWER = "answer"
FOR_NAMES = ("idna", "punycode")  # encodings of hosts' names, which take hours to decode a long text
KERNEL = '{"name": "python3", "display_name": "Python 3", "language": "python"}'
TITLE = re.compile(r"# %%\s*(?P<name>.*?)\s*(?:\((?P<points>\d+(?:\.\d+)?) points?\))?\s*$")

Verdict = dict[str, Any]
Judge = Callable[..., Verdict]


@dataclass(frozen=True, slots=True)
class GradedTest:
    """One test: a name, code that raises where the answer is wrong, and what a right answer gets."""

    name: str
    code: str
    points: float = 1.0


Tests = Mapping[str, str] | Sequence[GradedTest]


def judge(answer: str | Sequence[str], tests: Tests, **settings: Any) -> Verdict:
    """What `tests` say of an untrusted `answer`; `open_judge` says what may be set. For many answers open one judge.

    >>> verdict = judge("def square(x): return x * x", {"three": "assert square(3) == 9"}, trust_students=True)
    >>> verdict["score"], verdict["questions"]["three"]["ending"]
    (1.0, 'passed')
    """
    asked = {name: settings.pop(name) for name in ("reference", "seed", "files") if name in settings}
    with open_judge(**settings) as warm:
        return warm(answer, tests, **asked)


@contextmanager
def open_judge(
    *, limits: Limits | None = None, trust_students: bool = False, preload: Sequence[str] = ()
) -> Iterator[Judge]:
    """A warm judge: a function of an answer and its tests, each call in processes of its own.

    Args:
        limits: of time, memory and output for one answer.
        trust_students: run the code even where this machine can't confine it.
        preload: what answers import, imported once.

    The function takes:
        answer: Python, or the texts of a notebook's code cells in order.
        tests: name → code worth one point, or GradedTests.
        reference: an answer that is known to be right. With it, what an answer may give back in which place is known.
        seed: of the tests' random numbers; drawn where none is given.
        files: path → bytes, beside the answer.

    It returns `score`, `max_score`, `questions` (by name: `ending`, `points`, `max_points`, `message`, …), `refusal`
    and `died` (a sentence or None), `wall_s`, `cpu_s`: JSON's types only.

    Raises:
        SandboxError: this machine can't confine untrusted code.
        CourseError: no test, two of one name, one that isn't Python, or one that the reference doesn't pass.
    """
    bounds = limits or Limits()
    with trial.warm_judge(bounds, trust_students=trust_students, preload=tuple(preload)) as run:

        def warm(
            answer: str | Sequence[str],
            tests: Tests,
            *,
            reference: str | Sequence[str] | None = None,
            seed: int | None = None,
            files: Mapping[str, bytes] | None = None,
        ) -> Verdict:
            asked = _questions(tests)
            names = [question.name for question in asked]
            known = _cells_of(reference) if reference is not None else []
            assignment = _assignment(asked, known, secrets.randbits(48) if seed is None else seed, bounds)

            def graded(cells: Sequence[str], who: str) -> Result:
                handed_in = replace(_submission(cells, assignment, files or {}), student=who)
                return engine.grade(handed_in, assignment, run, give_up=True)

            if known:
                shown = _passed(graded(known, questions.REFERENCE), names)
                assignment = replace(assignment, effects=questions.effects(shown), places=shown.places)
            return _told(graded(_cells_of(answer), NAME), names)

        yield warm


# --- as a course has it ----------------------------------------------------------------------------------------------


def _questions(tests: Tests) -> list[GradedTest]:
    asked = [GradedTest(name, code) for name, code in tests.items()] if isinstance(tests, Mapping) else list(tests)
    names = [question.name for question in asked]
    if not asked:
        raise CourseError("there is no test to judge by")
    if len(set(names)) < len(names):
        raise CourseError(f"each test needs a name of its own; given are: {', '.join(names)}")
    for question in asked:
        try:
            ast.parse(plain(question.code))
        except (SyntaxError, ValueError) as error:
            raise CourseError(f"the test {question.name!r} isn't Python: {error}") from None
    return asked


def _assignment(asked: Sequence[GradedTest], reference: Sequence[str], seed: int, limits: Limits) -> Assignment:
    rows = [SourceCell(ANSWER, "code", "", None, 0.0, grade=False, solution=True, locked=False, task=False)]
    for number, each in enumerate(asked):
        rows.append(SourceCell(f"test-{number}", "code", each.code, None, each.points, True, False, True, False))
    solved = [Written("answer", (text,), ANSWER) for text in reference] or [Written("answer", (), ANSWER)]
    tests = [Written("test", (row.source,), row.grade_id) for row in rows[1:]]
    whose = naming([*solved, *tests], complete=bool(reference))
    return Assignment(NAME, (Notebook(NAME, KERNEL, tuple(map(sealed, rows)), whose),), seed, limits)


def _cells_of(answer: str | Sequence[str]) -> list[str]:
    return [answer] if isinstance(answer, str) else list(answer)


def _submission(cells: Sequence[str], assignment: Assignment, files: Mapping[str, bytes]) -> Submission:
    (notebook,) = assignment.notebooks
    first, *rest = [nbformat.v4.new_code_cell(text) for text in cells or [""]]  # type: ignore[no-untyped-call]  # nbformat has no types
    last = rest[-1] if rest else first
    last.metadata["nbgrader"] = {"grade_id": ANSWER}
    tests = [nbformat.v4.new_code_cell(row.source) for row in notebook.cells[1:]]  # type: ignore[no-untyped-call]  # nbformat has no types
    for cell, row in zip(tests, notebook.cells[1:], strict=True):
        cell.metadata["nbgrader"] = {"grade_id": row.grade_id}
    document = nbformat.v4.new_notebook(cells=[first, *rest, *tests])  # type: ignore[no-untyped-call]  # nbformat has no types
    try:
        text = intake.canonical(nbformat.writes(document).encode("utf-8", "surrogatepass"), NAME)  # type: ignore[no-untyped-call]  # nbformat has no types
    except intake.Unreadable as refusal:
        return Submission(NAME, NAME, refusal=str(refusal))
    return Submission(NAME, NAME, {NAME: text}, files)


def refused(why: str) -> Verdict:
    """What is told of an answer that can't be judged."""
    return _told(Result("", NAME, NAME, None, refusal=why), ())


def _passed(reference: Result, names: Sequence[str]) -> Result:
    """What the reference has shown; CourseError where it doesn't pass."""
    ended = zip(names, reference.outcomes, strict=False)
    wrong = [f"{name}: {one.kind}: {one.message}" for name, one in ended if one.kind is not Ending.PASSED]
    if reference.refusal or wrong:
        raise CourseError(f"the reference doesn't pass its own tests: {reference.refusal or wrong[0]}")
    return reference


def _told(result: Result, names: Sequence[str]) -> Verdict:
    died = [graded.died for graded in result.notebooks if graded.died]
    return {
        "score": result.score,
        "max_score": result.max_score,
        "questions": {name: _question(outcome) for name, outcome in zip(names, result.outcomes, strict=False)},
        "refusal": result.refusal,
        "died": died[0] if died else None,
        "wall_s": round(result.wall_s, 3),
        "cpu_s": round(result.cpu_s, 3),
    }


def _question(outcome: Outcome) -> dict[str, Any]:
    return {
        "ending": str(outcome.kind),
        "points": outcome.points,  # None: nobody knows, a person has to look
        "max_points": outcome.max_points,
        "message": outcome.message,
        "misconceptions": list(outcome.misconceptions),
        "claims": list(outcome.claims),
    }


# --- from files ------------------------------------------------------------------------------------------------------


def answer_in(path: Path) -> list[str]:
    """The code of an answer: a Python file, or a notebook's code cells without its tests."""
    if path.suffix != ".ipynb":
        return [_text(path)]
    return [cell["source"] for cell in _cells(path) if not trial.is_test(cell)]


def tests_in(path: Path) -> list[GradedTest]:
    """The tests in a file: a notebook's that nbgrader knows as such, or cells of a Python file, `# %% name (2 points)`.

    Raises `CourseError` where there is none.
    """
    if path.suffix == ".ipynb":
        found = [cell for cell in _cells(path) if trial.is_test(cell)]
        marks = [cell["metadata"]["nbgrader"] for cell in found]
        tests = [
            GradedTest(str(mark.get("grade_id")), cell["source"], _points(mark.get("points"), path))
            for mark, cell in zip(marks, found, strict=True)
        ]
    else:
        tests = list(_titled(_text(path)))
    if not tests:
        raise CourseError(f"{path} holds no test: in a Python file each begins with a line `# %% name (2 points)`")
    return tests


def passed_by(tests: Sequence[GradedTest], reference: Sequence[str] | None) -> list[str]:
    """What the tests' author should know: the checks that an answer may come past, each as a sentence."""
    answers = [(text, {"grade_id": ANSWER, "solution": True}) for text in reference or ()]
    asked = [(test.code, {"grade_id": test.name, "grade": True}) for test in tests]
    cells = [
        {"cell_type": "code", "source": text, "metadata": {"nbgrader": marks}} for text, marks in [*answers, *asked]
    ]
    return [one.said for one in of_checks(NAME, cells)]


def _points(given: Any, path: Path) -> float:
    try:
        return float(given or 0)
    except (TypeError, ValueError):
        raise CourseError(f"{path} gives a test {given!r} points, which is no number") from None


def _titled(text: str) -> Iterator[GradedTest]:
    title, lines = None, list[str]()
    for line in [*text.splitlines(), "# %%"]:
        match = TITLE.match(line)
        if match is None:
            lines.append(line)
            continue
        if title is not None and title["name"]:
            yield GradedTest(title["name"], "\n".join(lines).strip("\n"), float(title["points"] or 1))
        title, lines = match, []


def _text(path: Path) -> str:
    """As Python reads it: by a byte order mark, or by a comment that names the encoding; else it is UTF-8."""
    content = _content(path)
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(content).readline)[0]
        if codecs.lookup(encoding).name not in FOR_NAMES:
            with warnings.catch_warnings(action="ignore"):
                return content.decode(encoding)
    except (SyntaxError, LookupError, UnicodeError):
        pass
    raise CourseError(f"{path} can't be read: it is not UTF-8 text, nor of an encoding that it names")


def _content(path: Path) -> bytes:
    """All of a file; CourseError where it isn't one, or is larger than a notebook that is handed in may be."""
    try:
        return intake.plain_file(path, Limits().notebook_bytes)
    except intake.Unreadable as refusal:
        raise CourseError(f"{path}: {refusal}") from None


def _cells(path: Path) -> list[dict[str, Any]]:
    """Its code cells, each with the marks that the file gives it."""
    try:
        cells = intake.with_marks(_content(path), path.name)
    except intake.Unreadable as refusal:
        raise CourseError(f"{path}: {refusal}") from None
    return [cell for cell in cells if cell["cell_type"] == "code"]
