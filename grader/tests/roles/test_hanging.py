"""A judge that hangs where no interrupt reaches it, or dies, ends alone: the questions after it are graded."""

from __future__ import annotations

import time

import pytest

import nbjudge.grading.trial
from nbjudge.model import Ending, Limits
from nbjudge.process.zygote import Zygote
from nbjudge_tests.trials import answer, cell, check, run

LIMITS = Limits(cell_s=1.0, notebook_s=60.0)
ANSWER = answer("def f(x): return 2 * x\ndef power(): return 10 ** 9\ndef pattern(): return '(a+)+$'\nseen = []")
AFTER = check("assert f(2) == 4", "after")
HANGS = {
    "a power": "assert 10 ** power() != 1",
    "a long product": "assert len(str(7 ** (power() // 100))) > 1",
    "a sum in C": "assert sum(range(power() * 100)) > 1",
    "a loop": "while power(): sum(range(10 ** 6))",  # hardly ever is the answer's own code interrupted in it
    "in what the answer calls": "def back(x): return 7 ** (10 ** 9)\nassert apply(back)",
}


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nbjudge.grading.trial, "GRACE_S", 0.5)


@pytest.mark.parametrize("name", HANGS)
def test_a_judge_that_hangs_ends_alone(name: str, zygote: Zygote) -> None:
    apply = answer("def apply(f): return f(1)")
    marks = {"grade": False, "solution": False, "locked": True, "grade_id": "given"}
    instructors = cell("import math\nbase = math.floor(2.5)", **marks)
    after = check("assert f(base) == 4 and math.pi > 3", "after")
    ended = run(zygote, instructors, ANSWER, apply, check(HANGS[name], "hangs"), after, AFTER, limits=LIMITS)
    kinds = [outcome.kind for outcome in ended.outcomes]
    assert kinds == [Ending.TIMED_OUT, Ending.PASSED, Ending.PASSED]
    assert ended.outcomes[0].points == 0.0
    assert ended.outcomes[0].message == "This cell took longer than 1 s."
    assert ended.died is None


def test_a_judge_that_dies_too(zygote: Zygote) -> None:
    dies = check("assert f(1) == 2\nimport os; os.abort()", "dies")
    ended = run(zygote, ANSWER, dies, AFTER, limits=LIMITS)
    assert [outcome.kind for outcome in ended.outcomes] == [Ending.GRADER_FAILURE, Ending.PASSED]


def test_a_given_cell_that_is_slow_only_for_the_next_judge_costs_no_other_question(zygote: Zygote) -> None:
    marks = {"grade": False, "solution": False, "locked": True, "grade_id": "given"}
    waits = f"import time\nbase = 3\nwhile time.time() > {time.time() + 4.5}: pass\nelse: late = 4"
    read = check("assert f(late) == 8", "reads")
    slow = [check("assert f(late) == 8", "before"), check("assert 10 ** power() != 1", "hangs")]
    ended = run(zygote, cell(waits, **marks), ANSWER, *slow, read, AFTER, limits=Limits(cell_s=5.0, notebook_s=60.0))
    kinds = [outcome.kind for outcome in ended.outcomes]
    assert kinds == [Ending.PASSED, Ending.TIMED_OUT, Ending.GRADER_FAILURE, Ending.PASSED]
    assert "'late'" in ended.outcomes[2].message


def test_what_an_ended_judge_had_bound_isn_t_guessed(zygote: Zygote) -> None:
    binds = check("table = {1: 2}\nassert f(1) == table[1]", "binds")
    reads = check("assert f(1) == table[1]", "reads")
    ended = run(zygote, ANSWER, binds, check("assert 10 ** power() != 1", "hangs"), reads, AFTER, limits=LIMITS)
    kinds = [outcome.kind for outcome in ended.outcomes]
    assert kinds == [Ending.PASSED, Ending.TIMED_OUT, Ending.GRADER_FAILURE, Ending.PASSED]
    assert "'table'" in ended.outcomes[2].message


def test_a_student_that_hangs_still_ends_the_student(zygote: Zygote) -> None:
    deaf = answer("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ndef f(x):\n    while True: pass")
    ended = run(zygote, deaf, check("assert f(1) == 2", "asks"), AFTER, limits=LIMITS)
    assert [outcome.kind for outcome in ended.outcomes] == [Ending.TIMED_OUT, Ending.NOT_REACHED]
    assert "took longer than 1 s" in str(ended.died)
