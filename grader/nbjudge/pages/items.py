"""Item statistics: how hard each question was, and whether it tells those who know much from those who know little."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbjudge.course.office.standings import Score, Standing

FEWEST = 20
"""Students below which no figure is told: of ten, a correlation of 0 is seen as ±0.6 by chance alone."""


@dataclass(frozen=True, slots=True)
class QuestionStatistics:
    """One question of an assignment, over the `students` who have points for it and for another one.

    `difficulty` is the share of its points that they got, so the larger, the easier. `discrimination` correlates that
    share with the share that each got of all other questions (where points are all or nothing: the point-biserial
    coefficient of item and rest), None where nobody differs. Both are None below FEWEST.
    """

    notebook: str
    grade_id: str
    students: int
    difficulty: float | None = None
    discrimination: float | None = None


def items(standings: Iterable[Standing]) -> tuple[QuestionStatistics, ...]:
    """Every question that anybody has points for, in the gradebook's order."""
    told: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for standing in standings:
        scored = [score for score in standing.scores if _counts(score)]
        for score in scored:
            rest = [other for other in scored if other is not score]
            if rest:
                told.setdefault((score.notebook, score.grade_id), []).append((_share([score]), _share(rest)))
    return tuple(_item(*name, pairs) for name, pairs in told.items())


def _counts(score: Score) -> bool:
    return score.points is not None and not score.waits and score.max_points > 0


def _share(scores: Sequence[Score]) -> float:
    return sum(score.points or 0.0 for score in scores) / sum(score.max_points for score in scores)


def _item(notebook: str, grade_id: str, pairs: Sequence[tuple[float, float]]) -> QuestionStatistics:
    if len(pairs) < FEWEST:
        return QuestionStatistics(notebook, grade_id, len(pairs))
    here, elsewhere = ([pair[k] for pair in pairs] for k in (0, 1))
    differ = len(set(here)) > 1 and len(set(elsewhere)) > 1
    discrimination = statistics.correlation(here, elsewhere) if differ else None
    return QuestionStatistics(notebook, grade_id, len(pairs), statistics.fmean(here), discrimination)
