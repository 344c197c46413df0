"""One page on how a class did: scores, questions, the map of misconceptions, who needs somebody. No script in it."""

from __future__ import annotations

import base64
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from nbjudge.course.standings import Standing, State
from nbjudge.model import Kind, Outcome, Result
from nbjudge.pages import charts
from nbjudge.pages.screen import attention, suspicion

MISCONCEPTIONS = tuple(f"M{number:02}" for number in range(1, 13))
SENTENCE = re.compile(r"^\s*Suggests\s+(M\d\d)\s+(\S.*)$")  # how a check's message puts a misconception right
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a202c; background: #fff; max-width: 60rem; margin: 2rem auto;
       padding: 0 1rem } h2 { margin-top: 2.5rem } img { max-width: 100% } table { border-collapse: collapse }
th, td { text-align: left; padding: .2rem 1rem .2rem 0; border-bottom: 1px solid #e2e8f0; vertical-align: top }
td.number { text-align: right } summary { cursor: pointer } .none { color: #4a5568 }
"""


def page(assignment: str, standings: Sequence[Standing], results: Mapping[str, Result]) -> str:
    """The report as one HTML document. `results`: by student, where they are kept."""
    handed_in = [one for one in standings if one.handed_in]
    title = f"{assignment}: how the class did"
    sections = (
        _numbers(standings),
        _scores(handed_in),
        _questions(list(results.values())),
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
    said = ", ".join(f"{counts[state]} {state}" for state in State if counts[state]) or "the gradebook has no student"
    return f"<p>{len(standings)} students: {said}.</p>"


def _scores(handed_in: Sequence[Standing]) -> str:
    scored = [one for one in handed_in if one.state is not State.NOT_GRADED]
    if not scored:
        return "<h2>Scores</h2><p class=none>Nobody is graded yet.</p>"
    points = [one.points for one in scored]
    possible = max(sum(score.max_points for score in one.scores) for one in scored)
    said = (
        f"{len(scored)} students, of {possible:g} points: mean {statistics.mean(points):.1f}, "
        f"median {statistics.median(points):g}, least {min(points):g}, most {max(points):g}"
    )
    waiting = sum(one.state is State.WAITS for one in scored)
    note = f"<p>{waiting} still wait for a person; what that adds isn't in it.</p>" if waiting else ""
    return f"<h2>Scores</h2><p>{said}.</p>{note}{_picture(charts.distribution(points, possible), said)}"


def _questions(results: Iterable[Result]) -> str:
    counts: dict[str, Counter[Kind]] = defaultdict(Counter)
    for result in results:
        for outcome in result.outcomes:
            counts[outcome.grade_id][outcome.kind] += 1
    if not counts:
        return "<h2>Questions</h2><p class=none>No result is kept.</p>"
    rows = [(name, _rate(kinds), _said(kinds)) for name, kinds in counts.items()]
    said = "; ".join(f"{name}: {kinds}" for name, _, kinds in rows)
    table = _table(("question", "passed", "how it ended"), rows)
    return f"<h2>Questions</h2>{_picture(charts.questions(counts), said)}{table}"


def _rate(kinds: Counter[Kind]) -> str:
    return "by hand" if kinds[Kind.BY_HAND] else f"{kinds[Kind.PASSED] / kinds.total():.0%}"


def _said(kinds: Counter[Kind]) -> str:
    return ", ".join(f"{kinds[kind]} {kind}" for kind in Kind if kinds[kind])


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
    picture = _picture(charts.misconceptions(counts, len(results)), said)
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
        yield f"{one.penalty:g} points off for lateness"


# --- parts -----------------------------------------------------------------------------------------------------------


def _picture(svg: str, said: str) -> str:
    encoded = base64.b64encode(svg.encode()).decode("ascii")
    return f'<p><img alt="{escape(said)}" src="data:image/svg+xml;base64,{encoded}"></p>'


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"
