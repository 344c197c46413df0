"""Submissions that solve nothing and want points, secrets or damage: each file is what a student might hand in.

In one kernel with the tests most of them get full marks.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.model import Kind, Limits
from grader.zygote import Zygote
from tests.trials import answer, check, everything, locked, printed, run

ATTACKS = sorted(Path(__file__).with_name("attacks").glob("*.ipy"))
LIMITS = Limits(cell_s=2, notebook_s=25, output_bytes=200_000)
SETUP = locked("import torch")
TESTS = (
    check(
        """
assert type(number) is int
### BEGIN HIDDEN TESTS
secret_of_the_tests = 7421
assert number == secret_of_the_tests
### END HIDDEN TESTS""",
        "number",
        5,
    ),
    check(
        """
import torch
x = torch.rand(2) + 1
x.requires_grad_()
### BEGIN HIDDEN TESTS
secret_of_the_tests = (x * x).detach()
y = square(x)
assert torch.equal(y, secret_of_the_tests)
y.sum().backward()
assert torch.allclose(x.grad, 2 * x.detach())
### END HIDDEN TESTS""",
        "square",
        10,
    ),
    check(
        """
import torch
from seegrad.check import score
x = torch.rand(3) + 1
secret_of_the_tests = 3 * float(x.sum())
score(1.0 if abs(float(grade_of(x)) - secret_of_the_tests) < 1e-3 else 0.0)""",
        "partial",
        10,
    ),
)
RIGHT = answer("number = 7421\ndef square(x): return x * x\ndef grade_of(x): return 3 * float(x.sum())")


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grader.trial.GRACE_S", 0.7)


# What an attack prints when it has got at nothing.
EMPTY_HANDS = {
    "peek": "found [] []",
    "read_disk": "seen []",
    "write_outside": "written []\nbefore []",
    "network": "reached []",
}


def descendants(pid: int) -> set[int]:
    """The processes that a process has started, and these, and so on."""
    found, wanted = set[int](), [pid]
    while wanted:
        current = wanted.pop()
        listed = Path(f"/proc/{current}/task/{current}/children")
        children = [int(child) for child in listed.read_text().split()] if listed.exists() else []
        found.update(children)
        wanted.extend(children)
    return found


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda path: path.stem)
def test_an_attack_gains_nothing(attack: Path, zygote: Zygote) -> None:
    before = descendants(zygote._process.pid)
    result = run(zygote, SETUP, answer(attack.read_text(encoding="utf-8")), *TESTS, limits=LIMITS)
    assert [outcome.grade_id for outcome in result.outcomes] == ["number", "square", "partial"]
    assert sum(outcome.points or 0 for outcome in result.outcomes) == 0
    assert not {outcome.kind for outcome in result.outcomes} & {Kind.PASSED, Kind.PARTLY}
    for secret in ("secret_of_the_tests", "HIDDEN", "7421"):
        shown = everything(result).replace(attack.read_text(encoding="utf-8"), "")
        assert secret not in shown
    if attack.stem in EMPTY_HANDS:
        assert EMPTY_HANDS[attack.stem] in printed(result, 1)
    assert descendants(zygote._process.pid) == before


def test_nothing_of_it_reaches_the_next_student(zygote: Zygote) -> None:
    result = run(zygote, SETUP, RIGHT, *TESTS, limits=LIMITS)
    assert [outcome.points for outcome in result.outcomes] == [5, 10, 10]


def test_a_tag_does_not_skip_a_test(zygote: Zygote) -> None:
    tests = [
        {**test, "metadata": {**test["metadata"], "tags": ["skip-execution", "raises-exception"]}} for test in TESTS
    ]
    result = run(zygote, SETUP, answer("number = 0"), *tests, limits=LIMITS)
    assert [outcome.kind for outcome in result.outcomes] == [Kind.FAILED] * 3


def test_there_is_a_dozen_and_more() -> None:
    assert len(ATTACKS) >= 12
