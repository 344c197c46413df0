"""What a terminal shows: a run as it goes and a table at its end; why a student has these points.

Why, question by question: what was asked, came and was expected, and who may change it.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from tqdm import tqdm

from nbjudge.course.office.standings import Score, Stage, Standing
from nbjudge.grading.batch import Entry
from nbjudge.grading.questions import MOST_CELLS, counted_cells, raised
from nbjudge.model import Ending, Outcome, Result
from nbjudge.shown.hidden import marked_lines
from nbjudge.shown.text import counted, one_line, printable

SCORED_BY_HAND = "scored by hand"
BROKE_RULES = "broke the rules"
PARTIAL_TROUBLE = (Ending.CRASHED, Ending.TIMED_OUT)  # what is never reached comes after one of them
OVERRIDE = (
    "To override: formgrader, Manual Grading, {assignment}, the notebook, {student}. A score entered there counts "
    "instead of the grader's, and stays when the submission is graded again."
)
HIDDEN = (
    "A student's page has what a hidden test asked after the due date. Without a date it has what the test's `assert` "
    "says by a message; c.FeedbackPages.hold_back = False in nbgrader_config.py shows it at once."
)
WAIT = (
    "{answers} for a person ({questions}), to be scored in formgrader, Manual Grading, {assignment}. "
    "Nothing has failed there: it is a person's to judge. Then `nbgrader generate_feedback {assignment}` and "
    "`nbgrader export` have the scores too."
)
NOT_KEPT = "What the judge said is not kept any more; `nbjudge autograde {assignment} --student {student}`"


BELOW = "    "


class ProgressBar:
    """A bar with rate and time left in a terminal; one line per student in a log."""

    def __init__(self) -> None:
        self._bar: tqdm[None] | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, entry: Entry, done: int, total: int) -> None:
        """One more is done."""
        if not sys.stderr.isatty():
            sys.stderr.write(f"{done}/{total} {summary(entry)}\n")
            sys.stderr.flush()
            return
        if self._bar is None:
            self._bar = tqdm(total=total, unit="student", desc="grading")
        self._bar.set_postfix_str(one_line(entry.student))
        self._bar.update(done - self._bar.n)

    def say(self, text: str) -> None:
        """A line of its own, above the bar where there is one."""
        tqdm.write(printable(text), file=sys.stdout)


def summary(entry: Entry) -> str:
    """One line on one student, for a terminal or a log.

    >>> summary(Entry("ada", Result("k", "ada", "ps1", None), "refused: no notebook"))
    'ada: refused: no notebook'
    """
    if entry.problem:
        return one_line(f"{entry.student}: {entry.problem}")
    same = ", unchanged" if entry.unchanged else ""
    return one_line(f"{entry.student}: {_points(entry, ' of ')}{same}")


def _points(entry: Entry, of: str) -> str:
    """As the gradebook has them, penalty and a person's scores in it; what was judged where it has none."""
    one = entry.standing
    if one is None or not one.scores:
        return f"{entry.result.score:g}{of}{entry.result.max_score:g}"
    return f"{one.points:g}{of}{sum(score.max_points for score in one.scores):g}"


def columns(rows: Sequence[Sequence[str]], most: int | None = None) -> list[str]:
    """Rows as lines of equal columns, a rule below the first; the last column may be as long as it likes.

    Each row is one line, whatever its texts hold; what of it has no room in a line of `most` letters stands below it.
    By itself that is as many as a terminal has, and without one any number.

    >>> print(*columns([["a", "b"], ["long", "c"]]), sep="|")
    a     b|-------|long  c
    >>> print(*columns([["a", "b"], ["long", "all that was wrong"]], 15), sep="|")
    a     b|-------|long|    all that|    was wrong
    """
    most = _width() if most is None else most
    rows = [[one_line(text) for text in row] for row in rows]
    last = len(rows[0]) - 1
    widths = [max(len(row[column]) for row in rows) for column in range(last)]
    head, *lines = (
        "  ".join([*(text.ljust(width) for text, width in zip(row[:last], widths, strict=True)), row[last]]).rstrip()
        for row in rows
    )
    fitted = (_fitted(line, row[last], most) for line, row in zip(lines, rows[1:], strict=True))
    return [head, "-" * len(head), *chain.from_iterable(fitted)]


def turned(rows: Sequence[Sequence[str]], most: int | None = None) -> Sequence[Sequence[str]]:
    """The columns as rows, where a terminal has too little room for them beside each other, and more for these.

    >>> turned([["q", "none", "nan"], ["f_test", "caught", "same"]], 20)
    [('q', 'f_test'), ('none', 'caught'), ('nan', 'same')]
    """
    most, columns_as_rows = _width() if most is None else most, list(zip(*rows, strict=True))
    wide, narrow = (sum(max(map(len, each)) + 2 for each in zip(*one, strict=True)) for one in (rows, columns_as_rows))
    return columns_as_rows if 0 < most < wide and narrow < wide else rows


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def _fitted(line: str, text: str, most: int) -> list[str]:
    """A line that ends in `text`, which stands in lines of its own where that one would be too long."""
    if not 0 < most < len(line):
        return [line]
    below = textwrap.wrap(text, most, initial_indent=BELOW, subsequent_indent=BELOW, break_on_hyphens=False)
    return [line.removesuffix(text).rstrip(), *below]


def table(entries: Sequence[Entry]) -> str:
    """Student, score, how their questions ended, and what was wrong; then a line of totals, and what is left to do."""
    rows = [("student", "score", "questions", "remark"), *(_row(entry) for entry in entries)]
    left = waiting([(entry.standing, entry.result) for entry in entries if entry.standing])
    return "\n".join([*columns(rows), "", totals(entries), *filter(None, [left])])


def _row(entry: Entry) -> tuple[str, str, str, str]:
    result = entry.result
    known = entry.standing.scores if entry.standing else ()
    graded = any((score.manual if result.void else score.points) is not None for score in known)
    points = "–" if (result.refusal is not None or result.void) and not graded else _points(entry, "/")
    if result.refusal is not None:
        return entry.student, points, "", entry.problem or ""
    by_hand = {score.grade_id for score in entry.standing.scores if score.manual is not None} if entry.standing else ()
    kinds = Counter(
        SCORED_BY_HAND if outcome.grade_id in by_hand else outcome.kind.value for outcome in result.outcomes
    )
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return entry.student, points, counts, "; ".join(_remarks(entry))


def _remarks(entry: Entry) -> Iterable[str]:
    if entry.problem:
        yield entry.problem
    yield from attention(entry.result)
    if words := [outcome.grade_id for outcome in entry.result.outcomes if _rests_on_a_word(outcome)]:
        rest = counted(len(words), "question rests", "questions rest")
        yield f"{rest} on the student's word ({', '.join(words)}), nothing has to be done"
    if entry.standing and entry.standing.penalty:
        yield late(entry.standing.penalty)
    again = (
        [score.grade_id for score in entry.standing.scores if score.waits and score.manual is not None]
        if entry.standing
        else []
    )
    if again:
        yield f"scored by hand before the answer changed: {', '.join(again)}"
    if entry.unchanged:
        yield "unchanged"


def waiting(every: Iterable[tuple[Standing, Result | None]]) -> str:
    """How many answers a person has yet to score, and where that is done; empty where there are none."""
    read = [one for one, result in every if result is None or not (result.refusal is not None or result.void)]
    scores = [score for one in read for score in one.scores if score.waits]
    if not scores:
        return ""
    questions = ", ".join(dict.fromkeys(one_line(score.grade_id) for score in scores))
    answers = counted(len(scores), "answer waits", "answers wait")
    return WAIT.format(answers=answers, questions=questions, assignment=read[0].assignment)


def attention(result: Result) -> Iterable[str]:
    """What a person may want to look at in a graded submission."""
    for graded in result.notebooks:
        if graded.died:
            yield graded.died
        yield from graded.notes


def _rests_on_a_word(outcome: Outcome) -> bool:
    """Points that are there by it: past a tenth of the assignment's they have waited for a person instead."""
    return bool(outcome.claims and outcome.points)


def late(penalty: float) -> str:
    """What a student's lateness has cost."""
    return f"{counted(penalty, 'point')} off for lateness"


def suspicion(result: Result) -> str | None:
    """Why somebody may have tried to cheat, or None: honest code doesn't speak the grader's protocol."""
    return next((graded.died for graded in result.notebooks if BROKE_RULES in (graded.died or "")), None)


def totals(entries: Sequence[Entry]) -> str:
    """How many ended how, as one line.

    >>> totals([Entry("ada", Result("k", "ada", "ps1", None, refusal="x"), "refused: x")])
    '0 graded, 1 refused; 0.0 s of work'
    """
    good = sum(entry.problem is None for entry in entries)
    counts = Counter((entry.problem or "").partition(":")[0] for entry in entries if entry.problem)
    said = [f"{good} graded", *(f"{count} {kind}" for kind, count in counts.items())]
    for kind in PARTIAL_TROUBLE:
        count = sum(any(outcome.kind is kind for outcome in entry.result.outcomes) for entry in entries)
        said += [f"{count} {kind} in part"] if count else []
    suspicious = sum(suspicion(entry.result) is not None for entry in entries)
    said += [f"{suspicious} suspicious"] if suspicious else []
    wall_s = sum(entry.result.wall_s for entry in entries if not entry.unchanged)
    return f"{', '.join(said)}; {wall_s:.1f} s of work"


# --- one student -----------------------------------------------------------------------------------------------------


def explain(standing: Standing, result: Result | None) -> str:
    """The whole story as text. `result` is what the grades came from, None where it isn't kept any more."""
    lines = [*_head(standing), ""]
    if result is None:
        lines += [NOT_KEPT.format(assignment=standing.assignment, student=standing.student), ""]
    elif result.refusal is not None:
        lines += [f"Refused: {result.refusal}", ""]
    outcomes = {outcome.grade_id: outcome for outcome in result.outcomes} if result else {}
    ran = _ran(result)
    refused = result is not None and result.refusal is not None  # said once, for all that a person hasn't scored
    asked = [score for score in standing.scores if score.points is not None or not refused]
    for score in sorted(asked, key=lambda score: _place(score, outcomes)):
        lines += [*_question(score, outcomes.get(score.grade_id), ran.get(score.notebook, [])), ""]
    if result and (said := list(attention(result))):
        lines += ["Also:", *(f"  {line}" for line in said), ""]
    if any(one.hidden and one.reproduce for one in outcomes.values()):
        lines += [HIDDEN, ""]
    return "\n".join([*lines, OVERRIDE.format(assignment=standing.assignment, student=standing.student)])


def _place(score: Score, outcomes: dict[str, Outcome]) -> int:
    order = list(outcomes)
    return order.index(score.grade_id) if score.grade_id in outcomes else len(order)


def _head(standing: Standing) -> Iterator[str]:
    possible = sum(score.max_points for score in standing.scores)
    who = f"{one_line(standing.student)}, {standing.assignment}"
    reached = f"{standing.points:g} of {counted(possible, 'point')}, {standing.state}"
    yield f"{who}: {standing.state if standing.state is Stage.NOT_GRADED else reached}"
    if standing.timestamp:
        yield f"handed in {standing.timestamp} UTC"
    if standing.penalty:
        yield f"{standing.penalty:g} of {counted(standing.raw_points, 'point')} taken off for lateness"


JsonCell = dict[str, Any]


def _ran(result: Result | None) -> dict[str, list[JsonCell]]:
    """The cells of each notebook as they were run."""
    return {one.name: json.loads(one.notebook or "{}").get("cells", []) for one in result.notebooks} if result else {}


def _marks(cell: Mapping[str, Any]) -> dict[str, Any]:
    return dict(cell["metadata"].get("nbgrader", {}))


def _test(score: Score, cells: Sequence[JsonCell]) -> list[tuple[str, bool]]:
    """Each line of a question's test as it was run, and whether it is hidden: this is the instructor's terminal."""
    found = (cell for cell in cells if _marks(cell).get("grade_id") == score.grade_id)
    return next((list(marked_lines("".join(cell["source"]))) for cell in found), [])


def _raised(score: Score, cells: Sequence[JsonCell]) -> list[str]:
    """How the cells since the question before have ended in errors: what the test says may only follow from one."""
    found: list[str] = []
    for number, cell in counted_cells(cells):
        if _marks(cell).get("grade_id") == score.grade_id:
            return found[:MOST_CELLS]
        if _marks(cell).get("grade"):
            found = []
        elif how := raised(cell):
            found.append(one_line(f"before that, code cell {number}{how}"))
    return []


def _failed_line(outcome: Outcome, test: Sequence[tuple[str, bool]]) -> Iterator[str]:
    """Where the test failed, or waited for the answer; what a loop had drawn there stands in the case as code."""
    if not 0 < outcome.line <= len(test):
        return
    text, hidden = test[outcome.line - 1]
    said = "" if text.strip() in outcome.message else f": {one_line(text).strip()}"
    yield f"    line {outcome.line} of the test{', hidden from students' * hidden}{said}"
    *values, _ = outcome.reproduce.splitlines() or [""]
    yield from (f"        {one_line(value)}" for value in values)


def _question(score: Score, outcome: Outcome | None, cells: Sequence[JsonCell]) -> Iterator[str]:
    kind = outcome.kind if outcome else Ending.BY_HAND if score.auto is None else "scored"
    given = "no score" if score.points is None else f"{score.points:g}"
    yield f"{score.grade_id}  {kind}: {given} of {score.max_points:g}"
    if outcome:
        yield from (f"    {line}" for line in outcome.message.splitlines())
        yield from _failed_line(outcome, _test(score, cells))
        if outcome.kind is not Ending.PASSED:
            yield from (f"    {line}" for line in _raised(score, cells))
        if _rests_on_a_word(outcome):
            yield f"    rests on the student's word: {', '.join(outcome.claims)}"
            yield "    nothing has to be done; who wants to be sure looks in the answer whether that is so"
    if score.manual is not None:
        yield f"    a person gave {score.manual:g}; the grader {'nothing' if score.auto is None else f'{score.auto:g}'}"
    if score.extra:
        yield f"    extra credit {score.extra:g}"
    if score.waits:
        yield "    waits for a person to look at it"
