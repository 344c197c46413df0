"""One page on how a class did: scores, questions, the map of misconceptions, who needs somebody. No script in it."""

from __future__ import annotations

import base64
import io
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nbjudge.course.office.standings import Stage, Standing
from nbjudge.model import Ending, Outcome, Result
from nbjudge.pages.items import FEWEST, QuestionStatistics, items
from nbjudge.pages.screen import LATE, attention, suspicion
from nbjudge.shown.text import printable

MISCONCEPTIONS = tuple(f"M{number:02}" for number in range(1, 13))
SENTENCE = re.compile(r"^\s*Suggests\s+(M\d\d)\s+(\S.*)$")  # how a check's message puts a misconception right
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a202c; background: #fff; max-width: 60rem; margin: 2rem auto;
       padding: 0 1rem } h2 { margin-top: 2.5rem } img { max-width: 100% } table { border-collapse: collapse }
th, td { text-align: left; padding: .2rem 1rem .2rem 0; border-bottom: 1px solid #e2e8f0; vertical-align: top }
td.number { text-align: right } summary { cursor: pointer } .none { color: #4a5568 }
"""
BLUE, GREY, INK = "#2b6cb0", "#a0aec0", "#1a202c"
KINDS: Mapping[Ending, tuple[str, str]] = {  # colour and hatch: never by colour alone
    Ending.PASSED: ("#2f855a", ""),
    Ending.PARTLY: ("#9ae6b4", "//"),
    Ending.FAILED: ("#c05621", ""),
    Ending.NOT_ANSWERED: ("#e2e8f0", ""),
    Ending.CRASHED: ("#742a2a", "xx"),
    Ending.TIMED_OUT: ("#553c9a", ".."),
    Ending.REFUSED: ("#4a5568", "\\\\"),
    Ending.GRADER_FAILURE: ("#000000", "++"),
    Ending.BY_HAND: ("#bee3f8", "--"),
}
ITEM_HEAD = ("question", "students", "difficulty", "discrimination")
WIDTH_IN, ROW_IN, EDGE_IN = 8.0, 0.34, 1.0
MOST_BINS = 20
CHART_STYLE: dict[Any, Any] = {"svg.hashsalt": "grader", "svg.fonttype": "path", "font.size": 9.5, "text.color": INK}


def page(assignment: str, standings: Sequence[Standing], results: Mapping[str, Result]) -> str:
    """The report as one HTML document. `results`: by student, where they are kept."""
    handed_in = [one for one in standings if one.handed_in]
    title = f"{assignment}: how the class did"
    sections = (
        _numbers(standings),
        _scores(handed_in),
        _questions(list(results.values())),
        _items(items(handed_in)),
        _misconceptions(results),
        _looked_at(handed_in, results),
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}"><style>{STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n" + "\n".join(sections) + "\n</body></html>\n"
    )


# --- sections --------------------------------------------------------------------------------------------------------


def _numbers(standings: Sequence[Standing]) -> str:
    counts = Counter(one.state for one in standings)
    said = ", ".join(f"{counts[state]} {state}" for state in Stage if counts[state]) or "the gradebook has no student"
    return f"<p>{len(standings)} students: {said}.</p>"


def _scores(handed_in: Sequence[Standing]) -> str:
    scored = [one for one in handed_in if one.state is not Stage.NOT_GRADED]
    if not scored:
        return "<h2>Scores</h2><p class=none>Nobody is graded yet.</p>"
    points = [one.points for one in scored]
    possible = max(sum(score.max_points for score in one.scores) for one in scored)
    said = (
        f"{len(scored)} students, of {possible:g} points: mean {statistics.mean(points):.1f}, "
        f"median {statistics.median(points):g}, least {min(points):g}, most {max(points):g}"
    )
    waiting = sum(one.state is Stage.WAITS for one in scored)
    note = f"<p>{waiting} still wait for a person; what that adds isn't in it.</p>" if waiting else ""
    return f"<h2>Scores</h2><p>{said}.</p>{note}{_picture(draw_distribution(points, possible), said)}"


def _questions(results: Iterable[Result]) -> str:
    counts: dict[str, Counter[Ending]] = defaultdict(Counter)
    for result in results:
        for outcome in result.outcomes:
            counts[outcome.grade_id][outcome.kind] += 1
    if not counts:
        return "<h2>Questions</h2><p class=none>No result is kept.</p>"
    rows = [(name, _rate(kinds), _said(kinds)) for name, kinds in counts.items()]
    said = "; ".join(f"{name}: {kinds}" for name, _, kinds in rows)
    table = _table(("question", "passed", "how it ended"), rows)
    return f"<h2>Questions</h2>{_picture(draw_questions(counts), said)}{table}"


def _items(told: Sequence[QuestionStatistics]) -> str:
    """How hard each question was, and how well it discriminates; of a small class the number of students alone."""
    if not told:
        return ""
    several = len({one.notebook for one in told}) > 1
    rows = [
        (f"{one.notebook}: {one.grade_id}" * several or one.grade_id, str(one.students), *_figures(one)) for one in told
    ]
    said = (
        "Difficulty is the share of a question's points that was reached: 1 is the easiest. Discrimination is the "
        "correlation of that share with the share of all other points: near 0 the question doesn't tell who knows "
        f"much, below 0 it or its test is to be looked at. Below {FEWEST} students neither is told."
    )
    return f"<h2>Difficulty and discrimination</h2><p>{said}</p>{_table(ITEM_HEAD, rows)}"


def _figures(one: QuestionStatistics) -> tuple[str, str]:
    """Both as words; what can't be told has a reason."""
    if one.difficulty is None:
        return "too few students", "too few students"
    known = one.discrimination is not None
    return f"{one.difficulty:.2f}", f"{one.discrimination:.2f}" if known else "nobody differs"


def _rate(kinds: Counter[Ending]) -> str:
    return "by hand" if kinds[Ending.BY_HAND] else f"{kinds[Ending.PASSED] / kinds.total():.0%}"


def _said(kinds: Counter[Ending]) -> str:
    return ", ".join(f"{kinds[kind]} {kind}" for kind in Ending if kinds[kind])


def _misconceptions(results: Mapping[str, Result]) -> str:
    """The class map: who failed a question in a way that suggests which misconception."""
    holders: dict[str, dict[str, list[str]]] = {name: {} for name in MISCONCEPTIONS}
    sentences: dict[str, str] = {}
    for student, outcome in _failures(results):
        for name in outcome.misconceptions:
            holders.setdefault(name, {}).setdefault(student, []).append(outcome.grade_id)
        sentences |= {match[1]: match[2] for line in outcome.message.splitlines() if (match := SENTENCE.match(line))}
    counts = {name: len(students) for name, students in holders.items()}
    said = "; ".join(f"{name}: {count}" for name, count in counts.items() if count) or "nobody holds one"
    intro = (
        "<p>How many students still hold each misconception, as their failed answers suggest. "
        "The sentence is what puts it right.</p>"
    )
    details = "".join(
        f"<details><summary><b>{escape(name)}</b> {escape(sentences.get(name, ''))} "
        f"({len(students)} student{'s' * (len(students) != 1)})</summary>{_who(students)}</details>"
        for name, students in holders.items()
        if students
    )
    picture = _picture(draw_misconceptions(counts, len(results)), said)
    return f"<h2>Misconceptions</h2>{intro}{picture}{details}"


def _failures(results: Mapping[str, Result]) -> Iterator[tuple[str, Outcome]]:
    for student, result in results.items():
        for outcome in result.outcomes:
            if outcome.misconceptions:
                yield student, outcome


def _who(students: Mapping[str, Sequence[str]]) -> str:
    return _table(("student", "in"), [(student, ", ".join(asked)) for student, asked in sorted(students.items())])


def _looked_at(handed_in: Sequence[Standing], results: Mapping[str, Result]) -> str:
    rows = [(one.student, why) for one in handed_in for why in _reasons(one, results.get(one.student))]
    if not rows:
        return "<h2>To be looked at</h2><p class=none>Nobody.</p>"
    return f"<h2>To be looked at</h2>{_table(('student', 'why'), rows)}"


def _reasons(one: Standing, result: Result | None) -> Iterator[str]:
    if result is None:
        yield "what the judge said isn't kept; grade again"
        return
    if result.refusal is not None:
        yield f"refused: {result.refusal}"
    if suspicion(result):
        yield "suspicious: its process spoke to the grader as no honest code does"
    yield from attention(result)
    if one.penalty:
        yield LATE.format(points=one.penalty)


# --- parts -----------------------------------------------------------------------------------------------------------


def _picture(svg: str, said: str) -> str:
    encoded = base64.b64encode(svg.encode()).decode("ascii")
    return f'<p><img alt="{escape(said)}" src="data:image/svg+xml;base64,{encoded}"></p>'


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(printable(text))}</td>' for text in row)}</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


# --- pictures: SVG without a script, every number also written beside its bar ----------------------------------------


def draw_distribution(points: Sequence[float], possible: float) -> str:
    """How many students reached how many points, as SVG."""
    bins = max(1, min(MOST_BINS, round(possible) or 1))
    figure, axes = _figure(2.6)
    width = (possible or 1) / bins
    places = Counter(min(bins - 1, int(reached / width)) for reached in points)
    bars = axes.bar(
        [(place + 0.5) * width for place in range(bins)],
        [places[place] for place in range(bins)],
        width,
        color=BLUE,
        edgecolor="white",
    )
    axes.bar_label(bars, [str(places[place] or "") for place in range(bins)])
    axes.set_xlabel("points")
    axes.set_ylabel("students")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(0, possible or 1)
    axes.margins(y=0.15)
    return _svg(figure)


def draw_questions(counts: Mapping[str, Mapping[Ending, int]]) -> str:
    """How each question ended, as SVG: one bar a question, one piece an outcome."""
    figure, axes = _figure(EDGE_IN + ROW_IN * len(counts))
    names = list(counts)
    left = [0] * len(names)
    for kind, (colour, hatch) in KINDS.items():
        values = [counts[name].get(kind, 0) for name in names]
        if any(values):
            bars = axes.barh(names, values, left=left, color=colour, hatch=hatch, edgecolor="white", label=kind.value)
            dark = kind in (
                Ending.PASSED,
                Ending.FAILED,
                Ending.CRASHED,
                Ending.TIMED_OUT,
                Ending.REFUSED,
                Ending.GRADER_FAILURE,
            )
            texts = [str(value) if value else "" for value in values]
            box: Any = {"facecolor": colour, "edgecolor": "none", "pad": 1.5}
            axes.bar_label(bars, texts, label_type="center", color="white" if dark else INK, bbox=box)
            left = [start + value for start, value in zip(left, values, strict=True)]
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("students")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.55 / max(1, len(names)) - 0.12), ncols=5, frameon=False)
    return _svg(figure)


def draw_misconceptions(holders: Mapping[str, int], students: int) -> str:
    """How many students still hold each misconception, as SVG."""
    figure, axes = _figure(EDGE_IN + ROW_IN * len(holders))
    bars = axes.barh(
        list(holders), list(holders.values()), color=[BLUE if count else GREY for count in holders.values()]
    )
    axes.bar_label(bars, [f" {count}" for count in holders.values()])
    axes.invert_yaxis()
    axes.set_xlim(0, max(1, students))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(f"students of {students}")
    return _svg(figure)


def _figure(height_in: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    with mpl.rc_context(CHART_STYLE):
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(text, metadata={"Date": None, "Creator": None})
    return text.getvalue()
