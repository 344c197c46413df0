"""What the judge said, and what nobody needed to judge → one Outcome per question, one comment per answer.

The instructor's own answers have to pass them all.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nbjudge.course import intake
from nbjudge.course.layout import Course
from nbjudge.course.office.standings import Standing
from nbjudge.course.restore import grade_id
from nbjudge.errors import CourseError, ReferenceFailed
from nbjudge.model import (
    CELL_TIMEOUT,
    Assignment,
    Effects,
    Ending,
    Executed,
    Graded,
    Notebook,
    Outcome,
    Places,
    Result,
    SourceCell,
    Submission,
    digest,
)
from nbjudge.names import HELD
from nbjudge.shown.text import files_named, printable

WORD_SHARE = 0.1  # of an assignment's points may rest on the word of the student's process alone
ONLY_A_WORD = (
    "This rests on what the student's own objects or tensors say of themselves, or on what wasn't looked at "
    "({claims}), and on nothing else. More than a tenth of the points would: a person has to look."
)
ONLY_BY_A_CHANGE = (
    "This passes only because the answer changes what the test passes to it ({places}), which the reference answer "
    "leaves alone. With arguments of its own it doesn't pass: a person has to look."
)
MEANS_NO_ANSWER = frozenset({Ending.FAILED, Ending.CRASHED, Ending.NOT_REACHED})
LACKS_AN_ANSWER = frozenset({Ending.FAILED, Ending.NOT_ANSWERED})
STOPPED = "Code cell {number} took longer than a cell may, and was stopped, so this test lacks what it gives."
REFERENCE = "the reference answer"  # in place of a student's name; it never gets into the gradebook
VARIANTS = 5  # students that it is handed in by, where questions draw numbers for each
DRAWS = re.compile(r"\bvariant\(|NBJUDGE_STUDENT")
ADVICE = "Mend the test or the answer in {folder}, and run `nbjudge generate {name} --force`"
MISSING = re.compile(r"No module named '([\w.]+)'")
INSTALL = (
    "Install {what} where nbjudge runs ({python} -m pip install …), or lay a module of the course's own beside the "
    "notebook; then run the same command again"
)
MOST_CELLS = 3
IN_A_CELL = re.compile(r"^Cell .*, line (\d+)$", re.MULTILINE)  # as IPython says where an error was raised
OF_THE_NETWORK = re.compile(r"name resolution|Name or service not known|Network is unreachable|urlopen error")
NO_NETWORK = ". There is no network here: put what it downloads beside the notebook"
AGAIN = "If a process of the grader was killed, the same command goes on from here. If it says this again:"


def not_judged(result: Result, standing: Standing | None) -> list[Outcome]:
    """Where the grader itself has failed, and no person has given a score since."""
    scored = {(one.notebook, one.grade_id) for one in standing.scores if one.manual is not None} if standing else set()
    return [
        outcome
        for graded in result.notebooks
        for outcome in graded.outcomes
        if outcome.kind is Ending.GRADER_FAILURE and (graded.name, outcome.grade_id) not in scored
    ]


def carrying_points(notebook: Notebook) -> list[SourceCell]:
    """The cells that carry points: tests, written answers, tasks."""
    return [cell for cell in notebook.cells if cell.grade or cell.task]


def outcomes(document: Mapping[str, Any], notebook: Notebook, ran: Executed) -> Iterable[Outcome]:
    """One per question, in the course's order: the judge's for tests, nbgrader's meaning for written answers."""
    judged = {outcome.grade_id: outcome for outcome in ran.outcomes}
    blank, slow = unchanged(document, notebook), stopped(ran.notebook)
    for cell, answers in _asked(notebook):
        if cell.task or cell.solution:
            yield _by_hand(cell, empty=cell.grade_id in blank)
        else:
            found = _verdict(cell, judged.get(cell.grade_id), empty=bool(answers) and set(answers) <= blank)
            late = [slow[name] for name in (*answers, cell.grade_id) if name in slow]
            yield _late(found, late[0]) if late and found.kind in LACKS_AN_ANSWER else found


def _asked(notebook: Notebook) -> Iterator[tuple[SourceCell, tuple[str, ...]]]:
    """Each question with the answers that it is about; none where that can be anything (a task, a test alone)."""
    answers: tuple[str, ...] = ()
    tested = False
    for cell in notebook.cells:
        if cell.solution and not cell.grade:
            answers, tested = (cell.grade_id,) if tested else (*answers, cell.grade_id), False
        elif cell.task or (cell.grade and cell.solution):
            yield cell, () if cell.task else (cell.grade_id,)
        elif cell.grade:
            tested = True
            yield cell, answers


def answers(document: Mapping[str, Any], notebook: Notebook, files: Mapping[str, bytes]) -> dict[str, str]:
    """question → digest of what was answered: text, pictures in it, the student's files that it names."""
    locked = {cell.grade_id for cell in notebook.cells if cell.locked and not cell.solution}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    theirs = [
        (grade_id(cell), _told(cell, digests)) for cell in document["cells"] if grade_id(cell) not in locked
    ]  # each file and each text is read once, however many questions are asked
    found = {}
    for asked, named in _asked(notebook):
        told = [said for name, said in theirs if not named or name in named]
        found[asked.grade_id] = digest(json.dumps(told, sort_keys=True))
    return found


def _told(cell: Mapping[str, Any], digests: Mapping[str, str]) -> tuple[Any, ...]:
    text = "".join(cell["source"])
    beside = {name: digests[name] for name in files_named(text, digests)} if digests else {}
    return text.strip(), cell.get("attachments") or {}, beside


def within_the_tenth(notebooks: Sequence[Graded]) -> tuple[Graded, ...]:
    """Points that rest on the student's word alone: past a tenth of all points each of them waits for a person."""
    left = WORD_SHARE * sum(outcome.max_points for graded in notebooks for outcome in graded.outcomes) + 1e-9
    bounded = []
    for graded in notebooks:
        kept = []
        for outcome in graded.outcomes:
            left -= (outcome.points or 0.0) if outcome.alone else 0.0
            kept.append(_unproven(outcome) if left < 0 and outcome.alone and outcome.points else outcome)
        bounded.append(replace(graded, outcomes=tuple(kept)))
    return tuple(bounded)


def held(notebooks: Sequence[Graded]) -> tuple[Graded, ...]:
    """Points that are there only because an answer has changed a test's own values wait for a person."""
    return tuple(replace(graded, outcomes=tuple(map(_held, graded.outcomes))) for graded in notebooks)


def _held(outcome: Outcome) -> Outcome:
    if outcome.held or not outcome.points:
        return outcome
    message = ONLY_BY_A_CHANGE.format(places=", ".join(outcome.changed[:5]))
    return replace(outcome, kind=Ending.BY_HAND, points=None, message=message)


def effects(reference: Result) -> Effects:
    """What the reference answer changes of what the tests pass to it."""
    return {
        graded.name: {outcome.grade_id: outcome.changed for outcome in graded.outcomes if outcome.changed}
        for graded in reference.notebooks
    }


def _unproven(outcome: Outcome) -> Outcome:
    message = ONLY_A_WORD.format(claims=", ".join(outcome.claims[:5]))
    return replace(outcome, kind=Ending.BY_HAND, points=None, message=message)


def _by_hand(cell: SourceCell, *, empty: bool) -> Outcome:
    if empty and not cell.task:
        return Outcome(cell.grade_id, Ending.NOT_ANSWERED, 0.0, cell.points)
    return Outcome(cell.grade_id, Ending.BY_HAND, None, cell.points)


def _verdict(cell: SourceCell, outcome: Outcome | None, *, empty: bool) -> Outcome:
    if outcome is None:
        return Outcome(cell.grade_id, Ending.GRADER_FAILURE, None, cell.points, "the judge gave no verdict")
    kind = Ending.NOT_ANSWERED if empty and outcome.kind in MEANS_NO_ANSWER else outcome.kind
    return replace(outcome, kind=kind, max_points=cell.points)


def _late(outcome: Outcome, number: int) -> Outcome:
    """A test fails on what an answer that was stopped hasn't bound: by its own words nobody would know why."""
    return replace(outcome, kind=Ending.TIMED_OUT, message=STOPPED.format(number=number))


def stopped(executed: Mapping[str, Any]) -> dict[str, int]:
    """The cells that were stopped, and their numbers: one of the student's own by the marked one that follows it."""
    found, waiting = {}, 0
    for number, cell in counted_cells(executed.get("cells", ())):
        if any(one["output_type"] == "error" and one["ename"] == CELL_TIMEOUT for one in cell.get("outputs", ())):
            waiting = waiting or number
        if (name := grade_id(cell)) and waiting:
            found[name], waiting = waiting, 0
    return found


def comments(document: Mapping[str, Any], notebook: Notebook) -> Iterable[tuple[str, str | None]]:
    """nbgrader's automatic comment on each answer that is there."""
    blank = unchanged(document, notebook)
    present = {grade_id(cell) for cell in document["cells"]}
    for cell in notebook.cells:
        if cell.grade_id in present and (cell.solution or cell.task):
            yield cell.grade_id, "No response." if cell.grade_id in blank and not cell.task else None


def lost(document: Mapping[str, Any], notebook: Notebook) -> tuple[str, ...]:
    """The answer cells that aren't there: their questions fail for names that nobody binds."""
    present = {grade_id(cell) for cell in document["cells"]}
    return tuple(cell.grade_id for cell in notebook.cells if cell.solution and cell.grade_id not in present)


def unchanged(document: Mapping[str, Any], notebook: Notebook) -> set[str]:
    """The answers that still read as they were released."""
    released = {cell.grade_id: cell.source for cell in notebook.cells if cell.solution}
    present = {name: cell["source"] for cell in document["cells"] if (name := grade_id(cell)) in released}
    return {name for name, source in present.items() if source == released[name]}


# --- the instructor's own answers, graded first: a test that fails on them would cost everybody points ---------------


def reference(course: Course, assignment: Assignment) -> Submission:
    """The source notebooks, as if a student had handed them in.

    Raises `CourseError` where a notebook of the assignment has no readable source: `ReferenceFailed` where it has none.
    """
    folder = course.folder(course.source, ".", assignment.name)
    lost = [name for book in assignment.notebooks if not (folder / (name := f"{book.name}.ipynb")).is_file()]
    if lost:
        raise ReferenceFailed(
            f"the source {folder / lost[0]} is missing, so nobody knows whether the tests are right. Put it back"
        )
    read = intake.read(folder.resolve(), REFERENCE, assignment.name, assignment.limits)
    if read.refusal:
        raise CourseError(f"the source in {folder} can't be graded itself: {read.refusal}")
    return replace(read, timestamp=None)


def drawn(asked: Submission) -> list[Submission]:
    """The reference answer, and where its questions draw numbers for each student, the same handed in by others too.

    A test that holds for one student's numbers alone would cost the others their points.
    """
    others = range(2, 1 + VARIANTS) if any(DRAWS.search(text) for text in asked.notebooks.values()) else ()
    return [asked, *(replace(asked, student=f"{REFERENCE} {number}") for number in others)]


def united(results: Sequence[Result]) -> tuple[Effects, Mapping[str, Places]]:
    """What the reference answer changes and shows, whoever's numbers it was asked by."""
    changed: dict[str, dict[str, tuple[str, ...]]] = {}
    shown: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {}
    for result in results:
        for name, asked in effects(result).items():
            for question, places in asked.items():
                before = changed.setdefault(name, {}).get(question, ())
                changed[name][question] = tuple(dict.fromkeys((*before, *places)))
        for name, seen in result.places.items():
            for question, roles in seen.items():
                known = shown.setdefault(name, {}).setdefault(question, {})
                for place, some in roles.items():
                    known[place] = tuple(dict.fromkeys((*known.get(place, ()), *some)))
    for result in results:
        for name, seen in result.places.items():
            for question, roles in seen.items():
                known = shown[name][question]
                for place in [place for place, some in known.items() if HELD in some and place not in roles]:
                    del known[place]  # a check that isn't made of everybody's numbers
    return changed, shown


def demand_passed(result: Result, assignment: Assignment, course: Course) -> None:
    """Raises `CourseError` for the questions that the reference answer doesn't pass. Nothing was recorded then."""
    if result.refusal:
        raise CourseError(f"the source can't be graded itself: {result.refusal}")
    tests = {cell.grade_id for book in assignment.notebooks for cell in book.cells if cell.grade and not cell.solution}
    wrong = [outcome for outcome in result.outcomes if outcome.grade_id in tests and outcome.kind is not Ending.PASSED]
    if wrong:
        folder = course.folder(course.source, ".", result.assignment)
        places = {
            one.grade_id: f"{graded.name}.ipynb" + (f", line {one.line}" if one.line else "")
            for graded in result.notebooks
            for one in graded.outcomes
        }
        said = [f"{one.grade_id} ({places[one.grade_id]}): {_said(one)}" for one in wrong]
        questions = "\n".join(f"  {one}" for one in [*said, *_raised(result)])
        kind: type[CourseError] = ReferenceFailed
        advice = ADVICE.format(folder=folder, name=result.assignment)
        if missing := dict.fromkeys(name.partition(".")[0] for name in MISSING.findall(questions)):
            what, verdict, kind = " and ".join(missing), "got no verdict", CourseError
            advice = INSTALL.format(what=what, python=sys.executable)
        elif all(outcome.kind is Ending.GRADER_FAILURE for outcome in wrong):
            verdict, advice = "got no verdict", f"{AGAIN} {advice}"
        else:
            verdict = "failed"
        raise kind(
            f"{len(wrong)} of the tests {verdict} on the reference answer; no grade is recorded.\n{questions}\n{advice}"
        )


def _said(outcome: Outcome) -> str:
    reached = "no verdict" if outcome.points is None else f"{outcome.points:g} of {outcome.max_points:g}"
    first, *more = outcome.message.splitlines() or ["no message"]
    first += f" {more[0].strip()}" if first.endswith(":") and more else ""
    return f"{outcome.kind}, {reached}: {first}"


def _raised(result: Result) -> list[str]:
    """The first cells, tests aside, that raised: what comes after them may fail only for that."""
    found = []
    for graded in result.notebooks:
        tests = {outcome.grade_id for outcome in graded.outcomes}
        for number, cell in counted_cells(json.loads(graded.notebook)["cells"] if graded.notebook else ()):
            how = raised(cell)
            if how and grade_id(cell) not in tests:
                found.append(f"before that, code cell {number} of {graded.name}.ipynb{how}")
    return found[:MOST_CELLS]


def counted_cells(cells: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Code cells with the number that Jupyter shows beside them, and that is said where a process has ended."""
    for number, cell in enumerate((one for one in cells if one.get("cell_type", "code") == "code"), start=1):
        yield cell.get("execution_count") or number, cell


def raised(cell: Mapping[str, Any]) -> str | None:
    """How a cell that was run ended in an error, behind its name; None where it didn't."""
    errors = [one for one in cell.get("outputs", ()) if one["output_type"] == "error"]
    if not errors:
        return None
    error, lines = errors[0], IN_A_CELL.findall(printable("\n".join(errors[0]["traceback"])))
    line = f", line {lines[0]}" if lines else ""
    stopped = next((one["evalue"] for one in errors if one["ename"] == CELL_TIMEOUT), None)
    if stopped is not None:  # said behind the interruption itself
        return f"{line}: {stopped}"
    said = f"{error['ename']}: {next(iter(error['evalue'].splitlines()), '')}"
    return f"{line}{',' if line else ''} raises {said}{NO_NETWORK if OF_THE_NETWORK.search(said) else ''}"
