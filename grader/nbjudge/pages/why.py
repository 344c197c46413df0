"""Why a student has these points: question by question what was asked, came and was expected, and who may change it."""

from __future__ import annotations

from collections.abc import Iterator

from nbjudge.course.standings import Score, Standing
from nbjudge.model import Kind, Outcome, Result
from nbjudge.pages.screen import attention

OVERRIDE = (
    "To override: formgrader, Manual Grading, {assignment}, the notebook, {student}. A score entered there counts "
    "instead of the grader's, and stays when the submission is graded again."
)
NOT_KEPT = "What the judge said is not kept any more; `nbjudge autograde {assignment} --student {student}`"


def explain(standing: Standing, result: Result | None) -> str:
    """The whole story as text. `result` is what the grades came from, None where it isn't kept any more."""
    lines = [*_head(standing), ""]
    if result is None:
        lines += [NOT_KEPT.format(assignment=standing.assignment, student=standing.student), ""]
    elif result.refusal is not None:
        lines += [f"Refused: {result.refusal}", ""]
    outcomes = {outcome.grade_id: outcome for outcome in result.outcomes} if result else {}
    for score in sorted(standing.scores, key=lambda score: _place(score, outcomes)):
        lines += [*_question(score, outcomes.get(score.grade_id)), ""]
    if result and (said := list(attention(result))):
        lines += ["Also:", *(f"  {line}" for line in said), ""]
    return "\n".join([*lines, OVERRIDE.format(assignment=standing.assignment, student=standing.student)])


def _place(score: Score, outcomes: dict[str, Outcome]) -> int:
    order = list(outcomes)
    return order.index(score.grade_id) if score.grade_id in outcomes else len(order)


def _head(standing: Standing) -> Iterator[str]:
    possible = sum(score.max_points for score in standing.scores)
    yield f"{standing.student}, {standing.assignment}: {standing.points:g} of {possible:g} points, {standing.state}"
    if standing.timestamp:
        yield f"handed in {standing.timestamp} UTC"
    if standing.penalty:
        yield f"{standing.penalty:g} points taken off for lateness ({standing.raw_points:g} before)"


def _question(score: Score, outcome: Outcome | None) -> Iterator[str]:
    kind = outcome.kind if outcome else Kind.BY_HAND if score.auto is None else "scored"
    given = "no score" if score.points is None else f"{score.points:g}"
    yield f"{score.grade_id}  {kind}: {given} of {score.max_points:g}"
    if outcome:
        yield from (f"    {line}" for line in outcome.message.splitlines())
        if outcome.claims:
            yield f"    rests on the student's word: {', '.join(outcome.claims)}"
    if score.manual is not None:
        yield f"    a person gave {score.manual:g}; the grader {'nothing' if score.auto is None else f'{score.auto:g}'}"
    if score.extra:
        yield f"    extra credit {score.extra:g}"
    if score.waits:
        yield "    waits for a person to look at it"
