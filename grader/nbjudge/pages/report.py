"""One page on how a class did: scores, questions, misconceptions, students, the reason for each grade. No script in it.

Its bars are text and boxes, so they are read at any width, printed, and read aloud. A table is sorted by radio buttons
in its head: the style sheet puts its rows in the order that the checked one names.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from nbjudge.course.office.standings import Stage, Standing
from nbjudge.grading.questions import not_judged
from nbjudge.model import Ending, Outcome, Result
from nbjudge.pages.items import FEWEST, QuestionStatistics, items
from nbjudge.pages.screen import SCORED_BY_HAND, attention, explain, late, suspicion, waiting
from nbjudge.shown.text import counted, printable

SENTENCE = re.compile(r"^\s*Suggests\s+(M\d\d)\s+(\S.*)$")  # how a check's message puts a misconception right
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
MOST_BINS = 20
NEITHER = "too few students", "nobody differs"
"""Why a figure is missing."""
KINDS: Mapping[str, tuple[str, str]] = {  # ground and letters; a pattern and its number too: never by colour alone
    Ending.PASSED: ("#2f855a", "#fff"),
    Ending.PARTLY: ("#9ae6b4", "#1a202c"),
    Ending.FAILED: ("#b7410e", "#fff"),
    Ending.NOT_ANSWERED: ("#e2e8f0", "#1a202c"),
    Ending.CRASHED: ("#742a2a", "#fff"),
    Ending.TIMED_OUT: ("#553c9a", "#fff"),
    Ending.REFUSED: ("#4a5568", "#fff"),
    Ending.NOT_REACHED: ("#a0aec0", "#1a202c"),
    Ending.GRADER_FAILURE: ("#b83280", "#fff"),
    SCORED_BY_HAND: ("#2b6cb0", "#fff"),
    Ending.BY_HAND: ("#bee3f8", "#1a202c"),
}
WAITING = "waiting for a person"  # what a bar calls answers that a person has yet to read
STYLE = """
:root { color-scheme: light dark; --fg: #1a202c; --bg: #fff; --mut: #4a5568; --bd: #d5dbe2; --sub: #f3f5f8;
  --lk: #1f5aa8; --bar: #2b6cb0 }
@media (prefers-color-scheme: dark) { :root { --fg: #e6e9ee; --bg: #14171c; --mut: #a3adba; --bd: #39424e;
  --sub: #1d222a; --lk: #8fb6ff; --bar: #5b9bdc } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg); max-width: 64rem;
  margin: 2rem auto; padding: 0 1rem }
h1, h2 { line-height: 1.25 } h2 { margin-top: 2.5rem } a { color: var(--lk) } .none, small { color: var(--mut) }
table { border-collapse: collapse; width: 100%; display: block; overflow-x: auto } thead, tbody { display: flex;
  flex-direction: column; min-width: max-content }
.wraps > * { min-width: 0 }
tr { display: grid; grid-template-columns: var(--cols); gap: 0 14px; border-bottom: 1px solid var(--bd); padding:
  3px 0;
  break-inside: avoid } th, td { text-align: left; padding: 2px 0; font-weight: 400; overflow-wrap: anywhere }
thead th, td.name { font-weight: 600 } th label { cursor: pointer; white-space: nowrap } th input { margin: 0 5px 0
  0 }
th:has(input:checked)::after { content: " \u25be" } td.number { font-variant-numeric: tabular-nums }
.scores { display: flex; align-items: flex-end; gap: 2px; height: 130px; border-bottom: 1.5px solid var(--mut);
  max-width: 46rem } .scores i { flex: 1; height: calc(var(--h) * 1% + 1px); background: var(--bar); position:
  relative }
.scores b { position: absolute; bottom: 100%; width: 100%; text-align: center; font: 600 12px/16px system-ui }
.ends { display: flex; justify-content: space-between; max-width: 46rem; font-size: 12px; color: var(--mut) }
.stack { display: flex; min-width: 220px; height: 20px; gap: 1px }
.stack i, .key i { box-shadow: inset 0 0 0 1px var(--mut) }
.stack i { min-width: 20px; font: 600 12px/20px system-ui; text-align: center; border-radius: 2px }
.key { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 13px } .key i { display: inline-block; width: 16px;
  height: 12px; margin-right: 5px; vertical-align: -1px; border-radius: 2px }
.line { background: linear-gradient(90deg, var(--bar) calc(var(--w) * 1%), var(--sub) 0); height: 8px;
  border-radius: 4px;
  margin-top: 8px; min-width: 90px }
.belief { margin: 0 0 14px } .belief p { margin: 0 } .belief .line { max-width: 24rem; margin: 4px 0 }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--sub); padding: 8px 12px; border-radius: 4px;
  font: 12.5px/1.45 ui-monospace, Menlo, monospace } summary { cursor: pointer; padding: 2px 0 }
:focus-visible { outline: 2px solid var(--lk); outline-offset: 2px } details:target { outline: 2px solid var(--lk) }
@media (max-width: 640px) { thead, tbody { min-width: 0 } tr { display: flex; flex-wrap: wrap; gap: 2px 14px }
  td:first-child, td:has(.stack, .line) { flex: 1 0 100%; font-weight: 600 } tbody td:not(:first-child)::before {
  content: attr(data-head) " "; color: var(--mut); font-weight: 400 } td:has(.stack, .line)::before { content: ""
  !important } }
@media print { th input { display: none } body { margin: 0; max-width: none } a { color: inherit; text-decoration:
  none }
  * { print-color-adjust: exact } details::details-content { content-visibility: visible; display: block } }
"""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its head, its width as CSS has it, whether rows may be put in its order."""

    head: str
    width: str = "minmax(90px, auto)"
    sorts: bool = True


Cell = tuple[str, object]
"""What stands there, as HTML; and by what it is sorted."""


def page(assignment: str, standings: Sequence[Standing], results: Mapping[str, Result]) -> str:
    """The report as one HTML document. `results`: by student, where they are kept."""
    handed_in = [one for one in standings if one.handed_in]
    places = {one.student: f"why-{k}" for k, one in enumerate(handed_in)}
    title = f"{assignment}: how the class did"
    body = (
        _numbers(standings),
        _scores(handed_in),
        _questions(results, handed_in),
        _misconceptions(results, places),
        _looked_at(handed_in, results, places),
        _students(standings, places),
        _reasons_given(handed_in, results, places),
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        f"<style>{STYLE}{_orders(len(QUESTIONS))}</style></head>\n"
        f"<body><main><h1>{escape(title)}</h1>\n" + "\n".join(filter(None, body)) + "\n</main></body></html>\n"
    )


# --- sections --------------------------------------------------------------------------------------------------------


def _numbers(standings: Sequence[Standing]) -> str:
    counts = Counter(one.state for one in standings)
    said = ", ".join(f"{counts[state]} {state}" for state in Stage if counts[state]) or "the gradebook has no student"
    return f"<p>{counted(len(standings), 'student')}: {said}.</p>"


def _scores(handed_in: Sequence[Standing]) -> str:
    scored = [one for one in handed_in if one.state is not Stage.NOT_GRADED]
    if not scored:
        return "<h2>Scores</h2><p class=none>Nobody is graded yet.</p>"
    points = [one.points for one in scored]
    possible = _possible(scored)
    said = (
        f"{counted(len(scored), 'student')}, of {counted(possible, 'point')}: mean {statistics.mean(points):.1f}, "
        f"median {statistics.median(points):g}, least {min(points):g}, most {max(points):g}"
    )
    waiting = sum(one.state is Stage.WAITS for one in scored)
    waits = counted(waiting, "still waits for a person", "still wait for a person")
    note = f"<p>{waits}; what that adds isn't in it.</p>" if waiting else ""
    return f"<h2>Scores</h2><p>{said}.</p>{note}{_distribution(points, possible, said)}"


def _possible(scored: Iterable[Standing]) -> float:
    return max((sum(score.max_points for score in one.scores) for one in scored), default=0.0)


def _distribution(points: Sequence[float], possible: float, said: str) -> str:
    """How many students reached how many points."""
    bins = max(1, min(MOST_BINS, round(possible) or 1))
    width = (possible or 1) / bins
    places = Counter(min(bins - 1, int(reached / width)) for reached in points)
    most = max(places.values())
    bars = "".join(
        f'<i style="--h:{85 * places[k] / most:.0f}" title="{k * width:g} to {counted((k + 1) * width, "point")}">'
        f"{f'<b>{places[k]}</b>' if places[k] else ''}</i>"
        for k in range(bins)
    )
    ends = f"<span>0</span><span>{possible / 2:g}</span><span>{counted(possible, 'point')}</span>"
    drawn = f'<div class=scores role=img aria-label="{escape(said)}">{bars}</div>'
    return f"{drawn}<div class=ends aria-hidden=true>{ends}</div>"


QUESTIONS = (
    Column("question", "minmax(130px, 1.4fr)"),
    Column("students", "90px"),
    Column("passed", "90px"),
    Column("difficulty", "105px"),
    Column("discrimination", "155px"),
    Column("how it ended", "minmax(220px, 2fr)", sorts=False),
)


def _questions(results: Mapping[str, Result], handed_in: Sequence[Standing]) -> str:
    """How each question ended, how hard it was, how well it discriminates; of a small class its size alone."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in handed_in:
        for name, kind in _endings(one, results.get(one.student)):
            counts[name][kind] += 1
    order = {name: place for place, name in enumerate(counts)}  # as the notebooks have them
    told = sorted(items(handed_in), key=lambda one: order.get(one.grade_id, len(order)))
    several = len({one.notebook for one in told}) > 1
    rows = [
        _question(f"{one.notebook}: {one.grade_id}" * several or one.grade_id, one, counts[one.grade_id])
        for one in told
    ]
    known = {one.grade_id for one in told}
    rows += [_question(name, None, kinds) for name, kinds in counts.items() if name not in known]
    if not rows:
        return "<h2>Questions</h2><p class=none>No result is kept.</p>"
    met = [kind for kind in KINDS if any(kinds[kind] for kinds in counts.values())]
    key = "".join(f"<span><i style='background:{KINDS[kind][0]}'></i>{_called(kind)}</span>" for kind in met)
    said = (
        "Difficulty is the share of a question's points that was reached: 1 is the easiest. Discrimination is the "
        "correlation of that share with the share of all other points: near 0 the question doesn't tell who knows "
        f"much, below 0 it or its test is to be looked at. Below {FEWEST} students neither is told."
    )
    return f"<h2>Questions</h2>{_table('q', QUESTIONS, rows)}<p class=key>{key}</p><p><small>{said}</small></p>"


def _endings(one: Standing, result: Result | None) -> Iterator[tuple[str, str]]:
    """Each question and how it ended; one that the judge left to a person may have been scored since."""
    scored = {(each.notebook, each.grade_id) for each in one.scores if each.manual is not None and not each.waits}
    for graded in result.notebooks if result else ():
        for outcome in graded.outcomes:
            by_hand = outcome.points is None and (graded.name, outcome.grade_id) in scored
            yield outcome.grade_id, SCORED_BY_HAND if by_hand else outcome.kind


def _called(kind: str) -> str:
    return WAITING if kind == Ending.BY_HAND else str(kind)


def _question(name: str, told: QuestionStatistics | None, kinds: Counter[str]) -> list[Cell]:
    students = told.students if told else kinds.total()
    share = kinds[Ending.PASSED] / kinds.total() if kinds.total() else 0.0
    passed = (
        "by hand" if kinds[Ending.BY_HAND] or kinds[SCORED_BY_HAND] else f"{share:.0%}" if kinds.total() else "\u2013"
    )
    difficulty, discrimination = (told.difficulty, told.discrimination) if told else (None, None)
    why = NEITHER[difficulty is not None] if told else "\u2013"
    return [
        (escape(printable(name)), name),
        (str(students), students),
        (passed, share),
        (f"{difficulty:.2f}" if difficulty is not None else why, _last(difficulty)),
        (f"{discrimination:.2f}" if discrimination is not None else why, _last(discrimination)),
        (_stack(kinds), 0),
    ]


def _last(figure: float | None) -> float:
    """What isn't known stands last."""
    return 2.0 if figure is None else figure


def _stack(kinds: Counter[str]) -> str:
    """One bar, a piece an ending, each with its number."""
    said = ", ".join(f"{kinds[kind]} {_called(kind)}" for kind in KINDS if kinds[kind])
    pieces = "".join(
        f'<i style="flex:{kinds[kind]};background:{ground};color:{ink}" title="{_called(kind)}">{kinds[kind]}</i>'
        for kind, (ground, ink) in KINDS.items()
        if kinds[kind]
    )
    return f'<div class=stack role=img aria-label="{escape(said)}">{pieces}</div>' if pieces else ""


def _misconceptions(results: Mapping[str, Result], places: Mapping[str, str]) -> str:
    """Who failed a question in a way that suggests which misconception; those that most hold first."""
    holders: dict[str, dict[str, list[str]]] = {}
    sentences: dict[str, str] = {}
    for student, outcome in _failures(results):
        for name in outcome.misconceptions:
            holders.setdefault(name, {}).setdefault(student, []).append(outcome.grade_id)
        sentences |= {match[1]: match[2] for line in outcome.message.splitlines() if (match := SENTENCE.match(line))}
    if not holders:
        return "<h2>Misconceptions</h2><p class=none>Nobody's failed answer suggests one.</p>"
    intro = (
        "<p>How many students still hold each, as their failed answers suggest. The sentence is what puts it right.</p>"
    )
    told = sorted(holders.items(), key=lambda each: (-len(each[1]), each[0]))
    beliefs = (_belief(name, sentences.get(name, ""), students, len(results), places) for name, students in told)
    return f"<h2>Misconceptions</h2>{intro}{''.join(beliefs)}"


def _belief(name: str, said: str, students: Mapping[str, Sequence[str]], of: int, places: Mapping[str, str]) -> str:
    """The sentence, how many of the class, and who."""
    count = counted(len(students), "student")
    who = ", ".join(_who(student, asked, places) for student, asked in sorted(students.items()))
    return (
        f"<div class=belief><p>{escape(printable(said))} <small>{escape(name)}, {count}</small></p>"
        f"<div class=line style='--w:{100 * len(students) / of:.0f}'></div><p><small>{who}</small></p></div>"
    )


def _who(student: str, asked: Sequence[str], places: Mapping[str, str]) -> str:
    return f"{_linked(student, places)} ({escape(printable(', '.join(asked)))})"


def _failures(results: Mapping[str, Result]) -> Iterator[tuple[str, Outcome]]:
    for student, result in results.items():
        for outcome in result.outcomes:
            if outcome.misconceptions:
                yield student, outcome


WATCHED = (Column("student", "minmax(0, 1fr)"), Column("why", "minmax(0, 3fr)"))


def _looked_at(handed_in: Sequence[Standing], results: Mapping[str, Result], places: Mapping[str, str]) -> str:
    rows: list[list[Cell]] = [
        [(_linked(one.student, places), one.student), (escape(printable(why)), why)]
        for one in handed_in
        for why in _reasons(one, results.get(one.student))
    ]
    said = waiting((one, results.get(one.student)) for one in handed_in)
    table = _table("w", WATCHED, rows, wraps=True) if rows else "" if said else "<p class=none>Nobody.</p>"
    return f"<h2>To be looked at</h2>{f'<p>{escape(said)}</p>' if said else ''}{table}"


def _reasons(one: Standing, result: Result | None) -> Iterator[str]:
    if result is None:
        yield "what the judge said isn't kept; grade again"
        return
    if result.refusal is not None:
        yield f"refused: {result.refusal}"
    for lost in not_judged(result, one):
        yield f"grader failure, {lost.grade_id}: {next(iter(lost.message.splitlines()), 'no verdict')}"
    if suspicion(result):
        yield "suspicious: its process spoke to the grader as no honest code does"
    yield from attention(result)
    if one.penalty:
        yield late(one.penalty)


STUDENTS = (
    Column("student", "minmax(130px, 1fr)"),
    Column("points", "90px"),
    Column("state", "minmax(150px, 1fr)"),
    Column("share", "minmax(90px, 1fr)", sorts=False),
)


def _students(standings: Sequence[Standing], places: Mapping[str, str]) -> str:
    if not standings:
        return ""
    possible = _possible(standings) or 1.0
    rows: list[list[Cell]] = []
    for one in standings:
        graded = one.state in (Stage.GRADED, Stage.WAITS)
        line = f'<div class=line style="--w:{100 * one.points / possible:.0f}"></div>' if graded else ""
        points = f"{one.points:g}" if graded else "\u2013"
        rows.append(
            [
                (_linked(one.student, places), one.student),
                (points, one.points),
                (str(one.state), str(one.state)),
                (line, 0),
            ]
        )
    return f"<h2>Students</h2>{_table('s', STUDENTS, rows)}"


def _reasons_given(handed_in: Sequence[Standing], results: Mapping[str, Result], places: Mapping[str, str]) -> str:
    """What `why` says of each."""
    told = "".join(
        f'<details id="{places[one.student]}"><summary>{escape(printable(one.student))}</summary>'
        f"<pre>{escape(printable(explain(one, results.get(one.student))))}</pre></details>\n"
        for one in handed_in
    )
    return f"<h2>Why</h2>\n{told}" if told else ""


# --- parts -----------------------------------------------------------------------------------------------------------


def _linked(student: str, places: Mapping[str, str]) -> str:
    shown = escape(printable(student))
    return f'<a href="#{places[student]}">{shown}</a>' if student in places else shown


def _table(name: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, wraps: bool = False) -> str:
    """A table whose rows go by the column that is chosen; in their own order until one is.

    One that `wraps` is as wide as the page, whatever its texts.
    """
    ranks = [_ranks([row[k][1] for row in rows]) for k in range(len(columns))]
    head = "".join(f"<th role=columnheader scope=col>{_head(name, k, column)}</th>" for k, column in enumerate(columns))
    body = "".join(
        f'<tr role=row style="{";".join(f"--{k}:{ranks[k][n]}" for k in range(len(columns)))}">'
        f"{_cells(columns, row)}</tr>\n"
        for n, row in enumerate(rows)
    )
    widths, kind = " ".join(column.width for column in columns), "t wraps" if wraps else "t"
    called = f'aria-label="{escape(columns[0].head)}s"'
    return (
        f'<table role=table class="{kind}" tabindex=0 {called} style="--cols:{widths}">'
        f"<thead role=rowgroup><tr role=row>{head}</tr></thead><tbody role=rowgroup>\n{body}</tbody></table>"
    )


def _cells(columns: Sequence[Column], row: Sequence[Cell]) -> str:
    """Each knows its head: on a narrow page it stands before it."""
    told = zip(columns, row, strict=True)
    return "".join(f'<td role=cell data-head="{escape(column.head)}">{html}</td>' for column, (html, _by) in told)


def _head(name: str, k: int, column: Column) -> str:
    said = escape(column.head)
    return f"<label><input type=radio name={name} class=o{k}>{said}</label>" if column.sorts else said


def _orders(most: int) -> str:
    """The rules that put rows in order."""
    return "".join(f".t:has(.o{k}:checked) tbody tr{{order:var(--{k})}}" for k in range(most))


def _ranks(values: Sequence[object]) -> list[int]:
    """The place of each among them, words by the alphabet.

    >>> _ranks([3, 1, 2]), _ranks(["b", "a"])
    ([2, 0, 1], [1, 0])
    """

    def by(k: int) -> tuple[bool, float, str]:
        value = values[k]
        return (True, value, "") if isinstance(value, int | float) else (False, 0.0, str(value).casefold())

    places = {k: place for place, k in enumerate(sorted(range(len(values)), key=by))}
    return [places[k] for k in range(len(values))]
