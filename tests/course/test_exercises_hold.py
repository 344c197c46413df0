"""Every answer to an exercise that asks for a function, with the numbers of fifty seeds: wrong is refused, right isn't.

The test cells run in this process, which takes milliseconds; that the real grader says the same of the same answers
is for `test_assignment.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.course.answer_files import Answer, answers, exercises
from tests.course.quick_checks import code_exercises, refusal, untaken, untold

SEEDS = [pytest.param(range(1), id="a seed"), pytest.param(range(1, 50), id="fifty seeds", marks=pytest.mark.whole)]


def of(name: str, exercise: str) -> list[Answer]:
    return [answer for answer in answers(name) if answer.cell == exercise]


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize(("name", "exercise"), code_exercises())
def test_with_each_seed_wrong_answers_are_refused_with_their_reason_and_right_ones_are_not(
    name: str, exercise: str, seeds: range
) -> None:
    guilty = []
    for answer in of(name, exercise):
        for seed in seeds:
            said = refusal(name, answer, seed)
            told = said is not None and answer.says in said and (answer.misconception or "") in said
            told = told and not untold(said or "")
            if answer.right != (said is None) or not (answer.right or told):
                guilty.append((str(answer), seed, said))
                break
    assert not guilty


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize(("name", "exercise"), code_exercises())
def test_each_branch_of_the_reference_is_taken_with_each_seed(
    name: str, exercise: str, seeds: range, tmp_path: Path
) -> None:
    """What a seed's numbers never reach, no seed's numbers check."""
    solution = exercises(name)[exercise][0].source
    reference = Answer(exercise, "reference", solution, right=True)
    assert {seed: missed for seed in seeds if (missed := untaken(name, reference, seed, tmp_path))} == {}


@pytest.mark.parametrize(("name", "exercise"), code_exercises())
def test_no_picture_is_drawn_for_it(name: str, exercise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would take as long as a hundred answers, and thousands are asked."""
    monkeypatch.setattr("seegrad.pick", lambda *_what, **_more: pytest.fail("a picture"))
    solution = exercises(name)[exercise][0].source
    assert refusal(name, Answer(exercise, "reference", solution, right=True), 0) is None


def test_a_branch_that_no_number_takes_and_a_line_that_none_reaches_are_found(tmp_path: Path) -> None:
    source = """
def percent(x):
    if x.numel() > 1000:
        x = x * 2
    p = x.sigmoid()
    if x.numel() <= 1000:
        p = p * 1
    return p, torch.where(p.detach() < 0.5, 0.0, 100 * p.detach())
"""
    answer = Answer("write", "rare", source, right=True)
    missed = untaken("05_data_versus_detach", answer, 1, tmp_path)
    assert missed == ["line 4", "1 ways out of line 3", "1 ways out of line 6"]
