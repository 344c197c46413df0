"""The same test cells in one stock kernel and in the judge give the same result; a verdict is the judge's own."""

from __future__ import annotations

import re
from typing import Any

import nbformat
import pytest

from nbjudge.grading.trial import run_notebook
from nbjudge.model import Assignment, Ending, Limits, Outcome
from nbjudge.names import names_in, statements
from nbjudge.process.zygote import Zygote
from nbjudge.roles import verdict
from nbjudge_tests.trials import answer, cell, check, everything, locked, notebook, only, printed, run, stock_points

SETUP = locked("import torch\nfrom seegrad.check import expect, score\nSCALE = 3\ndef scaled(x):\n    return SCALE * x")
TESTS = (
    check("expect('predicted', predicted).equals('raises')", "predict", 2),
    check(
        "assert culprit['line'] == 4\n### BEGIN HIDDEN TESTS\nassert culprit['node'] == 'Exp'\n### END HIDDEN TESTS",
        "find",
        3,
    ),
    check(
        """
w = torch.tensor([1.0, 2.0], requires_grad=True)
for _ in range(3):
    loss = step(w, 0.1)
assert w.is_leaf and w.grad is None
assert torch.allclose(w, torch.tensor([0.512, 1.024])), w
assert isinstance(loss, float)
""",
        "repair",
        4,
    ),
    check(
        """
x = torch.rand(4, dtype=torch.float64, requires_grad=True)
assert torch.autograd.gradcheck(cube, (x,))
assert torch.autograd.gradgradcheck(cube, (x,))
y = cube(scaled(x)).sum()
y.backward()
assert torch.allclose(x.grad, 81 * x.detach() ** 2)
""",
        "write",
        5,
    ),
    check("assert order(lambda x: x + 1, [3, 1, 2]) == [2, 3, 4]", "order", 1),
    check("score(sum(choices.get(key) == key.upper() for key in 'abcd') / 4, of=8)", "choose", 8),
)
SQUARE = "def f(x): return x * x"
RIGHT = """
predicted = "raises"
culprit = {"line": 4, "node": "Exp"}
def step(w, lr):
    loss = (w * w).sum()
    loss.backward()
    with torch.no_grad():
        w -= lr * w.grad
    w.grad = None
    return loss.item()
def cube(x):
    return x ** 3
def order(f, items):
    return sorted(map(f, items))
choices = {"a": "A", "b": "B", "c": "C", "d": "D"}
"""
CHANGES = {
    "right": "",
    "wrong value": "predicted = 'silent'",
    "wrong type": "predicted = ['raises']",
    "half of a hidden test": "culprit = {'line': 4, 'node': 'Mul'}",
    "missing key": "culprit = {}",
    "not a leaf any more": "def step(w, lr):\n    w = w - lr\n    return 1.0",
    "gradient kept": "def step(w, lr):\n    (w * w).sum().backward()\n    w.data -= lr * w.grad\n    return 1.0",
    "graph cut": "def cube(x): return x.detach() ** 3",
    "wrong gradient": "def cube(x): return x.detach() ** 2 * x",
    "raises": "def cube(x): raise NotImplementedError()",
    "wrong order": "def order(f, items): return list(map(f, items))",
    "half": "choices = {'a': 'A', 'b': 'B'}",
    "nothing right": "choices = {}",
    "deleted": "del order, predicted, choices",
    "none": "cube = None; step = 3",
}


@pytest.fixture(scope="module")
def ours(zygote: Zygote) -> dict[str, tuple[Outcome, ...]]:
    return {name: run(zygote, SETUP, answer(RIGHT + change), *TESTS).outcomes for name, change in CHANGES.items()}


@pytest.mark.whole  # test_cells has the same oracle beside more ways to ask
def test_the_same_test_cells_in_one_stock_kernel_agree(ours: dict[str, tuple[Outcome, ...]]) -> None:
    """All answers go into one stock notebook, one after the other: a kernel start costs seconds."""
    cells = [SETUP]
    for change in CHANGES.values():
        cells += [answer(RIGHT + change), *TESTS]
    expected = stock_points(cells)
    found = [outcome.points for outcomes in ours.values() for outcome in outcomes]
    assert found == pytest.approx(expected)


def test_a_right_answer_gets_everything(ours: dict[str, tuple[Outcome, ...]]) -> None:
    assert [outcome.kind for outcome in ours["right"]] == [Ending.PASSED] * len(TESTS)
    assert [outcome.points for outcome in ours["right"]] == [2, 3, 4, 5, 1, 8]
    assert all(not outcome.message for outcome in ours["right"])


@pytest.mark.parametrize("name", [name for name in CHANGES if name != "right"])
def test_a_wrong_answer_fails_its_question_only(name: str, ours: dict[str, tuple[Outcome, ...]]) -> None:
    wrong = [outcome for outcome in ours[name] if outcome.kind is not Ending.PASSED]
    assert 1 <= len(wrong) <= 3
    assert all(outcome.message and outcome.kind in (Ending.FAILED, Ending.PARTLY) for outcome in wrong)


def test_a_fraction_is_of_the_cell_s_points(ours: dict[str, tuple[Outcome, ...]]) -> None:
    assert (ours["half"][-1].kind, ours["half"][-1].points) == (Ending.PARTLY, 4.0)
    assert (ours["nothing right"][-1].kind, ours["nothing right"][-1].points) == (Ending.FAILED, 0.0)


# ---------------------------------------------------------------------- one thing at a time


def judged(zygote: Zygote, source: str, test: str, **more: Any) -> Outcome:
    return only(run(zygote, answer(source), check(test), **more))


@pytest.mark.parametrize(
    "last",
    ["0.5;", "'all good'", "False", "print('0.25')", "import warnings; warnings.warn('careful')", "[0.5]", "'0.5'"],
)
def test_nothing_but_a_score_scores(last: str, zygote: Zygote) -> None:
    source = "import sys\ndef f():\n    print('noise', file=sys.stderr)\n    return 0.0"
    outcome = judged(zygote, source, f"assert f() == 0\n{last}")
    assert (outcome.kind, outcome.points) == (Ending.PASSED, 1.0)


NUMBERS = ["0.5", "1", "0", "sum([a == 1, a == 2]) / 4", "if a: 0.5", "float('nan')", "2", "-1", "0.5 if f() else 1.0"]
NUMBERS += ["import numpy as np\nnp.float64(0.25)", "import torch\ntorch.tensor(0.5)", "True", "None", "0.25 # so"]


@pytest.fixture(scope="module")
def stock_numbers() -> list[float | None]:
    """nbgrader's own points; None where nbgrader raises, or gives full points to what is no score."""
    points = stock_points([answer(ONE), *(check(last, f"q{n}", 1) for n, last in enumerate(NUMBERS) if last != "2")])
    found = dict(zip([last for last in NUMBERS if last != "2"], points, strict=True))
    return [None if last in ("2", "-1", "float('nan')") else found[last] for last in NUMBERS]


ONE = "a = 1\ndef f(): return 0.0"
# nbgrader reads what is shown, which is no number: full points.
BY_VALUE = {"import numpy as np\nnp.float64(0.25)": 0.25, "import torch\ntorch.tensor(0.5)": 0.5}


@pytest.mark.slow
def test_a_number_is_points_as_nbgrader_reads_it(zygote: Zygote, stock_numbers: list[float | None]) -> None:
    outcomes = run(zygote, answer(ONE), *(check(last, f"q{n}") for n, last in enumerate(NUMBERS))).outcomes
    stock = dict(zip(NUMBERS, stock_numbers, strict=True))
    assert {stock[last] for last in BY_VALUE} == {1.0}
    assert dict(zip(NUMBERS, (one.points for one in outcomes), strict=True)) == stock | BY_VALUE
    refused = outcomes[NUMBERS.index("2")]
    assert refused.kind is Ending.GRADER_FAILURE
    assert "a score is from 0 to 1" in refused.message


@pytest.mark.parametrize(
    "last", ["f(3)", "s = f(3)\nround(float(s), 2)", "min(f(3), 2)", "obj.points", "mine", "mine or 0"]
)
def test_a_number_that_came_from_the_answer_is_its_word(last: str, zygote: Zygote) -> None:
    source = "def f(x): return 2.0\nmine = 2.0\nclass Mine: points = 2.0\nobj = Mine()"
    (outcome,) = run(zygote, answer(source), check(last, points=2)).outcomes
    assert (outcome.points, outcome.alone) == (2, True)
    assert "the number that is the score" in outcome.claims
    (own,) = run(zygote, answer(source), check("2 * (f(3) == 2)", points=2)).outcomes
    assert (own.points, own.claims) == (2, ())
    (near,) = run(zygote, answer(source), check("2 - min(2, abs(f(3) - 1.5))", points=2)).outcomes
    assert (near.points, near.claims) == (1.5, ())


def test_a_thread_that_prints_warns_and_fails_costs_nothing(zygote: Zygote) -> None:
    source = """
import sys, threading, time, warnings
def noise():
    while True:
        print("out"); print("err", file=sys.stderr); warnings.warn("careful")
        time.sleep(0.002)
def fail(): raise ValueError("of the thread")
for work in (noise, fail): threading.Thread(target=work, daemon=True).start()
def f(x): return x + 1
"""
    tests = [check("import torch\nx = torch.rand(3)\nassert torch.equal(f(x), x + 1)", f"q{n}") for n in range(3)]
    assert {outcome.kind for outcome in run(zygote, answer(source), *tests).outcomes} == {Ending.PASSED}


def test_a_test_that_replaces_a_function_of_python_s_own_replaces_it_for_the_answer(zygote: Zygote) -> None:
    test = "from unittest.mock import patch\nwith patch('builtins.input', return_value='3'):\n    assert ask() == 3"
    assert judged(zygote, "def ask(): return int(input('how many?'))", test).kind is Ending.PASSED
    assert judged(zygote, "def ask(): return 4", test).kind is Ending.FAILED


def test_what_a_test_has_replaced_is_put_back_where_the_test_has_ended_too_early(zygote: Zygote) -> None:
    left = "from unittest.mock import patch\npatch('builtins.print').start()\nassert f() == 2"
    after = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as said:\n    f()\n"
    cells = (answer("def f():\n    print('three')\n    return 3"), check(left, "a"), check("patch.stopall()", "b"))
    first, _, last = run(zygote, *cells, check(f"{after}assert said.getvalue() == 'three\\n'", "c")).outcomes
    assert (first.kind, last.kind) == (Ending.FAILED, Ending.PASSED)


def test_an_error_within_a_cell_of_a_magic_is_the_test_s(zygote: Zygote) -> None:
    outcome = judged(zygote, "def f(): return 3", "%%capture\nassert f() == 4")
    assert (outcome.kind, outcome.points) == (Ending.FAILED, 0)


DRAWING = "import numpy as np, random, torch\ndef f(): return random.random() + np.random.rand() + torch.rand(1).item()"


@pytest.mark.parametrize("reference", [None, DRAWING])
def test_random_numbers_by_turns_are_never_a_silent_zero(reference: str | None, zygote: Zygote) -> None:
    test = "import random\nrandom.seed(3)\nfirst = f()\nassert random.random() != first"
    drawing = "import random\ndef f(): return random.random()"
    assert judged(zygote, drawing, test, beside=reference).kind is Ending.PASSED
    assert judged(zygote, "def f(): return 0.5", test, beside=reference).kind is Ending.PASSED


@pytest.mark.parametrize("reference", ["def f(): return 1", DRAWING])
def test_a_test_draws_the_same_numbers_whatever_an_answer_draws(reference: str, zygote: Zygote) -> None:
    test = (
        "import numpy as np, random, torch\nrandom.seed(3); np.random.seed(3); torch.manual_seed(3)\nf()\n"
        "(random.random() + np.random.rand() + torch.rand(1).item()) / 3"
    )
    points = {judged(zygote, source, test, beside=reference).points for source in (DRAWING, "def f(): return 1")}
    assert len(points) == 1
    assert points != {None}


def test_each_way_to_end_is_kept_apart(zygote: Zygote) -> None:
    source = "import os, time\na = 1\nbig = 1 << 19999\ndef slow(): time.sleep(60)\ndef leave(): os._exit(3)"
    tests = (
        check("assert a == 1", "passed"),
        check("assert a == 2", "failed"),
        check("from seegrad.check import score\nscore(0.5)", "partly"),
        check("assert big", "grader failure"),
        check("slow()", "timed out"),
        check("leave()", "crashed"),
    )
    outcomes = run(zygote, answer(source), *tests, limits=Limits(cell_s=4, notebook_s=60)).outcomes
    assert [str(outcome.kind) for outcome in outcomes] == [outcome.grade_id for outcome in outcomes]
    assert [outcome.points for outcome in outcomes] == [1, 0, 0.5, None, 0, 0]
    assert all(outcome.message for outcome in outcomes[1:])


def test_an_object_that_agrees_with_everything_waits_and_a_class_that_was_asked_for_does_not(zygote: Zygote) -> None:
    agreeing = (
        "class Yes:\n    def __eq__(self, other): return True\n    def __sub__(self, other): return 0.0\n"
        "    def equal(self, y): return True\n"
    )
    for test in ("assert f(3) == 9", "assert abs(f(3) - 9) < 1e-6", "assert f(3).equal(9)"):
        lied = judged(zygote, f"{agreeing}def f(x): return Yes()", test, reference=SQUARE)
        assert (lied.kind, lied.points) == (Ending.BY_HAND, None)
    asked = "class Vector:\n    def __init__(self, x): self.x = x\n    def __add__(self, y): return Vector(self.x + y)"
    honest = judged(zygote, asked, "assert (Vector(2) + 3).x == 5")
    assert (honest.kind, honest.claims, honest.alone) == (Ending.PASSED, (), False)


def test_a_name_of_python_s_own_is_the_answer_s_where_the_assignment_asks_for_it(zygote: Zygote) -> None:
    cells = (answer("def sum(values): return 7\nabs = lambda value: 0"), check("assert sum([1]) == 7 and abs(-3) == 3"))
    book = notebook(*cells, reference="def sum(values): ...")
    (outcome,) = run_notebook(zygote, book, {}, Assignment("", (), 5)).outcomes
    assert outcome.kind is Ending.PASSED


def test_a_score_of_the_student_s_own_does_not_count(zygote: Zygote) -> None:
    source = "from seegrad.check import score as made\nmine = made(1.0)\ndef f(): return made(1.0)"
    failed = judged(zygote, source, "assert f() > 2")
    assert (failed.kind, failed.points) == (Ending.FAILED, 0.0)
    assert judged(zygote, source, "type(mine) is float").kind is Ending.PASSED


def test_misconceptions_come_from_the_judge_s_own_exceptions(zygote: Zygote) -> None:
    named = "from seegrad.check import expect\nexpect('a', a).equals(2, 'M05')"
    assert judged(zygote, "a = 1", named).misconceptions == ("M05",)
    forged = "from seegrad.check import CheckFailed\ndef f(): raise CheckFailed(['paid'], ('M12',))"
    outcome = judged(zygote, forged, "f()")
    assert (outcome.kind, outcome.misconceptions) == (Ending.FAILED, ())


def test_a_missing_name_is_a_name_error(zygote: Zygote) -> None:
    outcome = judged(zygote, "a = 1", "assert b == 1", reference="b = 1")
    assert (outcome.kind, outcome.points) == (Ending.FAILED, 0.0)
    assert outcome.message == "NameError: name 'b' is not defined"


def test_a_missing_module_of_the_student_s_is_their_error_and_of_the_test_ours(zygote: Zygote) -> None:
    assert judged(zygote, "def f(): import no_such_module", "f()").kind is Ending.FAILED
    ours = judged(zygote, "a = 1", "import no_such_module")
    assert (ours.kind, ours.points) == (Ending.GRADER_FAILURE, None)
    assert "no_such_module" in ours.message


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("a = 1 << 19999", "a whole number of more than 14000 bits"),
        ("a = [[[1 << 19999]]]", "a whole number"),
        ("a = []\nfor _ in range(99): a = [a]", "nested deeper"),
        ("import torch\na = torch.ones(2).to_sparse().requires_grad_()", "layout torch.sparse_coo that requires"),
        ("import torch\na = torch.ones(2, device='meta')", "a tensor on meta"),
    ],
)
def test_what_cannot_be_carried_is_our_failure_never_a_zero(source: str, named: str, zygote: Zygote) -> None:
    outcome = judged(zygote, source, "try:\n    assert a\nexcept Exception:\n    pass")
    assert (outcome.kind, outcome.points) == (Ending.GRADER_FAILURE, None)
    assert named in outcome.message


def test_also_when_a_test_catches_everything(zygote: Zygote) -> None:
    outcome = judged(zygote, "def f(): return 1 << 19999", "try:\n    f()\nexcept BaseException:\n    pass")
    assert outcome.kind is Ending.GRADER_FAILURE


def test_a_test_that_swallows_the_end_of_the_student_is_a_crash(zygote: Zygote) -> None:
    outcome = judged(zygote, "import os\ndef f(): os._exit(0)", "try:\n    f()\nexcept Exception:\n    pass")
    assert (outcome.kind, outcome.points) == (Ending.CRASHED, 0.0)


@pytest.mark.parametrize("answered", ["import os; os._exit(0)", "import os\ndef f(): os._exit(0)"])
def test_what_comes_after_the_question_that_ended_the_program_is_not_reached(answered: str, zygote: Zygote) -> None:
    later = [check("assert f() == 1", name) for name in ("first", "second", "third")]
    ended = run(zygote, answer(answered), *later, reference="def f(): return 1")
    assert [one.kind for one in ended.outcomes] == [Ending.CRASHED, Ending.NOT_REACHED, Ending.NOT_REACHED]
    assert {one.points for one in ended.outcomes} == {0.0}


def test_a_question_that_takes_too_long(zygote: Zygote) -> None:
    source = "import time\ndef f(): time.sleep(60)\ng = 3"
    limits = Limits(cell_s=3, notebook_s=60)
    result = run(zygote, answer(source), check("f()", "slow"), check("assert g == 3", "next"), limits=limits)
    assert [outcome.kind for outcome in result.outcomes] == [Ending.TIMED_OUT, Ending.PASSED]
    assert result.outcomes[0].message == "The code that this test called took longer than 3 s.\n    f()"
    assert result.outcomes[0].line == 1


def test_a_hidden_line_that_takes_too_long_is_known_to_its_author_alone(zygote: Zygote) -> None:
    hidden = "### BEGIN HIDDEN TESTS\nassert f(77) == 1\n### END HIDDEN TESTS"
    limits = Limits(cell_s=1, notebook_s=60)
    outcome = only(run(zygote, answer("def f(x):\n    while True: pass"), check(hidden), limits=limits))
    assert (outcome.message, outcome.line) == ("The code that this test called took longer than 1 s.", 2)


def test_a_test_cell_that_never_ends_costs_its_own_points_alone(
    zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbjudge.grading.trial.GRACE_S", 0.5)
    limits = Limits(cell_s=3, notebook_s=60)
    stuck = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    result = run(zygote, answer("a = 1"), check(stuck, "stuck"), check("assert a == 1", "next"), limits=limits)
    assert [outcome.kind for outcome in result.outcomes] == [Ending.TIMED_OUT, Ending.PASSED]
    assert result.outcomes[0].points == 0  # the reference was through it in time: what hangs is this answer's


def test_no_line_of_a_hidden_test_is_shown(zygote: Zygote) -> None:
    test = "assert a > 0\n### BEGIN HIDDEN TESTS\nsecret = 7421\nassert a == secret\n### END HIDDEN TESTS"
    hidden = run(zygote, answer("a = 1"), check(test))
    assert only(hidden).message == "A check of this question doesn't hold."
    assert "7421" not in everything(hidden)
    assert judged(zygote, "a = -1", test).message == "This doesn't hold:\n    assert a > 0"


CASES = {
    "an assert": ("secret = 7421\nassert f(secret) == -secret", "secret = 7421\nassert f(secret) == -secret"),
    "in a loop": (
        "for n, m in [(1, 1.5), (2, 2.5)]:\n    assert f(n) == n and m < 2",
        "n = 2\nm = 2.5\nassert f(n) == n and m < 2",
    ),
    "containers": (
        "given = {'a': [1, (2,)], 'b': None}\nassert f(given) is None, 'no'",
        "given = {'a': [1, (2,)], 'b': None}\nassert f(given) is None, 'no'",
    ),
    "a tensor": (
        "import torch\nx = torch.ones(2, requires_grad=True)\nassert f(x).sum() == 3",
        "import torch\nx = torch.tensor([1.0, 1.0], dtype=torch.float32, requires_grad=True)\nassert f(x).sum() == 3",
    ),
    "an array": (
        "import numpy\nx = numpy.arange(2)\nassert f(x).sum() == 3",
        "import numpy\nx = numpy.array([0, 1], dtype='int64')\nassert f(x).sum() == 3",
    ),
    "no plain value": ("x = object\nassert f(1) == x", "x = object\nassert f(1) == x"),
    "too much to write down": ("x = 'a' * 5000\nassert f(x) == 1", "x = 'a' * 5000\nassert f(x) == 1"),
    "too much to show": (f"x = '{'a' * 5000}'\nassert f(x) == 1", ""),
    "what is printed": (
        "import contextlib, io\nbuf = io.StringIO()\nother = 3\nwith contextlib.redirect_stdout(buf):\n    f(1)\n"
        "assert other == 3\nassert buf.getvalue() == '1'",
        "import contextlib, io\nbuf = io.StringIO()\nwith contextlib.redirect_stdout(buf):\n    f(1)\n"
        "assert buf.getvalue() == '1'",
    ),
    "what a block has opened": (
        "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as buf:\n    f(1)\n"
        "    assert buf.getvalue() == '1'",
        "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as buf:\n    f(1)\n"
        "    assert buf.getvalue() == '1'",
    ),
    "a function of the test's": (
        "want = 7\ndef check(n):\n    assert f(n) == want\ncheck(2)",
        "want = 7\ndef check(n):\n    assert f(n) == want\ncheck(2)",
    ),
    "a long answer": (
        "r = [f(n) for n in range(1000)]\nassert len(r) == 2",
        "r = [f(n) for n in range(1000)]\nassert len(r) == 2",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("hides", [True, False])
def test_a_failing_case_is_written_down_as_code(zygote: Zygote, name: str, hides: bool) -> None:
    body, code = CASES[name]
    source = f"### BEGIN HIDDEN TESTS\n{body}\n### END HIDDEN TESTS" if hides else body
    outcome = only(run(zygote, answer("f = lambda x: x"), check(source)))
    assert (outcome.hidden, outcome.reproduce) == (hides, code)
    assert {"assert", "check(2)"} & {*source.splitlines()[outcome.line - 1].split()}
    if code:
        with pytest.raises(AssertionError):
            exec(code, {"f": lambda x: x})  # noqa: S102 -- that it runs is what is claimed


@pytest.mark.parametrize("made", ["secret = 7421", "secret = object()"])
def test_no_hidden_line_and_no_value_of_one_helps_to_run_an_open_one(zygote: Zygote, made: str) -> None:
    source = f"### BEGIN HIDDEN TESTS\n{made}\n### END HIDDEN TESTS\nassert f(1) == secret"
    outcome = only(run(zygote, answer("f = lambda x: x"), check(source)))
    assert (outcome.hidden, outcome.reproduce) == (False, "")


def test_a_hidden_test_names_its_input_where_its_author_lets_it(zygote: Zygote) -> None:
    source = '### BEGIN HIDDEN TESTS\nfor n in (2, 5):\n    assert f(n) == 2, f"f({n}) is wrong"\n### END HIDDEN TESTS'
    assert only(run(zygote, answer("f = lambda x: x"), check(source))).message == "AssertionError: f(5) is wrong"
    bare = source.replace(', f"f({n}) is wrong"', "")
    assert only(run(zygote, answer("f = lambda x: x"), check(bare))).message == "A check of this question doesn't hold."


DOUBLE = "def double(x): return x + x"
ASKED = """assert double(2) == 4
### BEGIN HIDDEN TESTS
for secret in (5, 7.5):
    assert double(secret) == secret + secret
### END HIDDEN TESTS"""
TELLS = """
heard = []
def double(x):
    heard.append(x)
    if len(heard) < 3:
        return x + x
    {}
"""


@pytest.mark.parametrize(
    "tells",
    [
        "return type('heard_' + '_'.join(map(str, heard[:2])), (), {})()",
        "raise type('heard_' + '_'.join(map(str, heard[:2])), (ValueError,), {})",
        "raise SystemExit(heard)",
        "from nbjudge.bridge.values import UnsupportedError\n    raise UnsupportedError(str(heard))",
    ],
)
def test_what_an_answer_says_of_a_hidden_question_is_known_as_hidden(tells: str, zygote: Zygote) -> None:
    outcome = only(run(zygote, answer(TELLS.format(tells)), check(ASKED), beside=DOUBLE))
    assert re.search("2[_, ]+5", outcome.message)
    assert outcome.hidden
    assert not outcome.points


def test_what_fails_before_the_hidden_part_is_told_at_once(zygote: Zygote) -> None:
    outcome = only(run(zygote, answer("class Own: ...\ndef double(x): return Own()"), check(ASKED), beside=DOUBLE))
    assert outcome.message == "double returned an Own, expected a float or an int."
    assert not outcome.hidden


def test_a_check_writes_its_own_case_and_a_score_knows_whether_it_is_hidden(zygote: Zygote) -> None:
    test = """import torch
from seegrad.check import call, expect
x = torch.tensor([2.0, 4.0], requires_grad=True)
expect("f(x)", f(x), x=x.detach().clone()).close(x * 2)"""
    outcome = only(run(zygote, answer("f = lambda x: x"), check(test)))
    assert outcome.reproduce == "x = torch.tensor([2.0, 4.0], dtype=torch.float32, requires_grad=True)\nf(x)"
    for hides in (True, False):
        part = "from seegrad.check import score\n{}score(0.5){}"
        marks = ("### BEGIN HIDDEN TESTS\n", "\n### END HIDDEN TESTS") if hides else ("", "")
        assert only(run(zygote, answer("f = 1"), check(part.format(*marks)))).hidden is hides


def test_what_the_student_s_functions_print_is_shown(zygote: Zygote) -> None:
    result = run(zygote, answer("def f(): print('called')"), check("print('from the test')\nf()\nassert 1 == 2"))
    assert printed(result, 1) == "called\n"
    shown = result.notebook["cells"][1]["outputs"]
    assert [output["output_type"] for output in shown] == ["stream", "error"]
    assert shown[1]["ename"] == "failed"


def test_also_in_the_first_cell_of_a_notebook(zygote: Zygote) -> None:
    result = run(zygote, check("print('from the test')"), check("1"), answer("print('mine')"))
    assert [printed(result, index) for index in range(3)] == ["", "", "mine\n"]


def test_the_same_seed_gives_the_same_inputs_and_each_question_its_own(zygote: Zygote) -> None:
    test = "import torch, random\nraise ValueError(f'{torch.rand(1).item()} {random.random()}')"
    first, other = run(zygote, check(test, "a"), check(test, "b"), seed=1).outcomes
    again, _ = run(zygote, check(test, "a"), check(test, "b"), seed=1).outcomes
    different, _ = run(zygote, check(test, "a"), check(test, "b"), seed=2).outcomes
    assert first.message == again.message
    assert len({first.message, other.message, different.message}) == 3


def test_claims_are_listed(zygote: Zygote) -> None:
    source = "import torch\nw = torch.ones(2, requires_grad=True)"
    assert judged(zygote, source, "assert w.is_leaf").claims == ("is_leaf",)
    behaviour = judged(zygote, source, "w.sum().backward()\nassert w.grad.tolist() == [1, 1]")
    assert (behaviour.kind, behaviour.claims) == (Ending.PASSED, ())


# ---------------------------------------------------------------------- whose name it is


def test_what_the_instructor_defines_is_never_the_student_s(zygote: Zygote) -> None:
    cells = (
        locked("import torch\nfrom torch.testing import assert_close\nLIMIT = 3\ndef correct(x): return x == LIMIT"),
        answer("assert_close = correct = print\nLIMIT = 1\nclass torch: allclose = print\na = 1"),
    )
    tests = (check("assert correct(a)", "one"), check("assert_close(torch.tensor(a), torch.tensor(3))", "two"))
    assert [one.kind for one in run(zygote, *cells, *tests, reference="a = 3").outcomes] == [Ending.FAILED] * 2


def test_an_instructor_s_cell_that_uses_answers_runs_in_the_student_s_process_once(zygote: Zygote) -> None:
    right = "calls = []\ndef f(x):\n    calls.append(x)\n    return x + 1"
    cells = (
        answer(right),
        locked("import math\nresult = f(math.floor(2.5))"),
        answer("math = None"),
        check("assert result == 3 and calls == [2] and math.floor(1.5) == 1"),
    )
    assert only(run(zygote, *cells, reference=right)).kind is Ending.PASSED


def test_a_variable_of_one_test_is_there_for_the_next(zygote: Zygote) -> None:
    cells = (
        answer("def f(x): return x"),
        check("given = 3\nassert f(given) == 3", "a"),
        check("assert f(given) == 3", "b"),
    )
    assert [outcome.kind for outcome in run(zygote, *cells).outcomes] == [Ending.PASSED] * 2


def test_a_name_is_whose_cell_gave_it_a_value_last(zygote: Zygote) -> None:
    cells = [check("y = 3", "a"), answer("y = 4"), check("assert y == 4", "b"), check("y = 5", "c")]
    cells += [check("assert y == 5", "d"), answer("y += 3"), check("assert y == 7", "e")]
    found = [outcome.points for outcome in run(zygote, *cells).outcomes]
    assert found == [1, 1, 1, 1, 1]


def test_a_broken_cell_of_the_instructor_is_the_course_s_mistake(zygote: Zygote) -> None:
    cells = (locked("from no_such_module import expected"), answer("expected = 1"), check("assert expected == 1"))
    outcome = only(run(zygote, *cells, reference="f = 1"))
    assert outcome.kind is Ending.GRADER_FAILURE
    assert "no_such_module" in outcome.message


def test_modules_that_the_student_imported_are_the_judge_s_own(zygote: Zygote) -> None:
    source = (
        "import torch, numpy as np\nimport torch.nn.functional as F\ntorch.equal = lambda *a: True\na = torch.ones(2)"
    )
    test = "assert not torch.equal(a, torch.zeros(2))\nassert np.ones(1)[0] == 1\nassert F.relu(a).tolist() == [1, 1]"
    assert judged(zygote, source, test).kind is Ending.PASSED


def test_the_test_s_own_mistake_is_not_the_student_s(zygote: Zygote) -> None:
    outcome = judged(zygote, "a = 1", "assert a ==")
    assert (outcome.kind, outcome.points) == (Ending.GRADER_FAILURE, None)


def test_names_that_a_cell_reads_and_binds() -> None:
    found = names_in("import a.b as c\nfor i in d:\n    e = [f(j) for j in g]\ndef h(k):\n    global m\n    m = k + n")
    assert found.read == ("d", "f", "g", "n")
    assert found.bound == ("c", "e", "h", "i", "m")
    assert found.imported == ("c",)
    (one,) = statements("def f(x, y=g):\n    global m\n    m = data.append(h(x)) or x")
    assert (sorted(one.reads), sorted(one.later), sorted(one.binds)) == (["g"], ["data", "h"], ["f", "m"])


# ---------------------------------------------------------------------- messages


def test_a_message_has_six_lines_at_most_and_no_colours() -> None:
    message = verdict.clipped("\x1b[31mred\x1b[0m\n\n" + "\n".join(f"{'x' * 400}{number}" for number in range(9)))
    assert message.splitlines()[0] == "red"
    assert len(message.splitlines()) == 6
    assert max(map(len, message.splitlines())) <= 300


@pytest.mark.parametrize("end", ["### END HIDDEN TESTS\nd", ""])
def test_hidden_lines(end: str) -> None:
    source = f"a\n### BEGIN HIDDEN TESTS\nb\nc\n{end}"
    assert {1, 6} & verdict.hidden_lines(source) == set()
    assert {2, 3, 4} <= verdict.hidden_lines(source)


def test_the_notebook_that_comes_back_is_one(zygote: Zygote) -> None:
    result = run(zygote, SETUP, answer("predicted = 1"), cell("1 / 0"), *TESTS)
    nbformat.validate(nbformat.from_dict(result.notebook))
    assert result.died is None
