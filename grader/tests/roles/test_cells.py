"""The same test cells, in stock nbgrader's one kernel and in our two processes: every kind of answer, right and wrong.

Each file of `grader/tests/data/cells/` holds test cells and answers to them. Right ones get everything, both ways; a
test that needs what isn't carried (`refused`) says so, and is never a zero.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nbjudge.grading.trial import run_notebook
from nbjudge.model import Assignment, Ending, Outcome
from nbjudge.process.zygote import Zygote
from nbjudge_tests.session import ALL, one_in
from nbjudge_tests.trials import LIMITS, answer, cell, check, notebook, showed, stock_points

FOLDER = Path(__file__).parents[1] / "data" / "cells"


@dataclass(frozen=True)
class Trial:
    """One answer and the test cells that it is put to."""

    name: str
    source: str
    right: bool
    tests: tuple[str, ...]
    refused: tuple[str, ...]  # for each test, a part of the sentence with which it isn't graded, or nothing
    reference: str

    def cells(self) -> list[dict[str, Any]]:
        numbered = enumerate(self.tests)
        return [answer(self.source), *(check(test, f"{self.name} {number}") for number, test in numbered)]


def trials() -> list[Trial]:
    return [trial for path in sorted(FOLDER.glob("*.toml")) for trial in read(path)]


def read(path: Path) -> list[Trial]:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    tests = tuple(test["source"].strip() for test in data["test"])
    refused = tuple(test.get("refused", "") for test in data["test"])
    reference = data["right"][0]["source"].strip("\n")
    kinds = [(kind, number, entry) for kind in ("right", "wrong") for number, entry in enumerate(data[kind], 1)]
    return [
        Trial(f"{path.stem}-{kind}-{number}", entry["source"].strip("\n"), kind == "right", tests, refused, reference)
        for kind, number, entry in kinds
    ]


EVERY = trials()
FIRST = [trial for trial in EVERY if trial.name.endswith("-1")]  # a right and a wrong one a file
TRIALS = EVERY if ALL else one_in(5, FIRST)


@pytest.fixture(scope="module")
def stock() -> dict[str, list[float]]:
    """All of them in one stock notebook, one after the other: a kernel start costs seconds."""
    cells = [content for trial in TRIALS for content in (cell("%reset -f"), *trial.cells())]
    points = iter(stock_points(cells))
    return {trial.name: [next(points) for _ in trial.tests] for trial in TRIALS}


@pytest.fixture(scope="module")
def shown(zygote: Zygote) -> Callable[[Trial], dict[str, Any]]:
    """What the reference answer, the first right one of a file, shows at each place."""

    @functools.cache
    def known(reference: str, tests: tuple[str, ...]) -> list[Any]:
        cells = [check(test, str(number)) for number, test in enumerate(tests)]
        return list(showed(zygote, answer(reference), *cells, reference=reference).values())

    def of(trial: Trial) -> dict[str, Any]:
        found = known(trial.reference, trial.tests)
        return {f"{trial.name} {number}": places for number, places in enumerate(found)}

    return of


def ours(zygote: Zygote, trial: Trial, places: dict[str, Any]) -> tuple[Outcome, ...]:
    book = notebook(*trial.cells(), reference=trial.reference)
    book["metadata"]["places"] = places
    return run_notebook(zygote, book, {}, Assignment("", (), 5, LIMITS)).outcomes


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.name)
def test_both_ways_give_the_same_points(
    trial: Trial, zygote: Zygote, stock: dict[str, list[float]], shown: Callable[[Trial], dict[str, Any]]
) -> None:
    outcomes = ours(zygote, trial, shown(trial))
    carried = [number for number, refused in enumerate(trial.refused) if not refused]
    said = [(outcome.kind.value, outcome.message) for outcome in outcomes]
    assert [outcomes[n].points for n in carried] == pytest.approx([stock[trial.name][n] for n in carried]), said
    assert (sum(stock[trial.name]) == len(trial.tests)) is trial.right
    assert Ending.GRADER_FAILURE not in {outcomes[number].kind for number in carried}
    for outcome, refused in zip(outcomes, trial.refused, strict=True):
        if refused and trial.right:
            assert outcome.kind in (Ending.GRADER_FAILURE, Ending.BY_HAND), said
            assert outcome.points is None
            assert refused in outcome.message or "a person has to look" in outcome.message
    if trial.right:
        assert not [outcome.claims for outcome in outcomes if outcome.alone]


def test_each_file_has_right_and_wrong_answers() -> None:
    for name in {trial.name.split("-")[0] for trial in EVERY}:
        kinds = {trial.right for trial in EVERY if trial.name.split("-")[0] == name}
        assert kinds == {True, False}
    assert len({trial.name.split("-")[0] for trial in EVERY}) >= 25
