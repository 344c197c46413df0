"""Nothing of the student's decides a comparison: data crosses by value, all else stands where the reference's did.

Each file of `grader/tests/data/places/` is a question (its reference answer and its test), cheats, of which most pass
in one kernel, and honest answers in other styles.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from nbjudge.model import Ending, Limits, Outcome
from nbjudge.process.zygote import Zygote
from nbjudge_tests.session import one_in
from nbjudge_tests.trials import LIMITS, answer, check, only, run

SOON = Limits(cell_s=4, notebook_s=30)
FOLDER = Path(__file__).parents[1] / "data" / "places"
# `yes = true` puts this in front of an answer: an object that agrees with everything.
YES = """
class Yes:
    def __init__(self, *a, **k): pass
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = lambda s, o: True
    __bool__ = lambda s: True
    __hash__ = lambda s: 7
    __len__ = lambda s: 2
    __sub__ = __rsub__ = __add__ = __radd__ = __mul__ = __abs__ = __round__ = lambda s, *o: 0.0
    __float__ = lambda s: 0.0
    __int__ = __index__ = lambda s: 0
    __iter__ = lambda s: iter([s])
    __getitem__ = lambda s, i: s
    __call__ = lambda s, *a, **k: s
    __getattr__ = lambda s, n: (lambda *a, **k: True)
    __torch_function__ = classmethod(lambda c, f, t, a=(), k=None: True)
"""
QUESTIONS: dict[str, dict[str, Any]] = {
    path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.toml"))
}


def rows(kind: str) -> list[Any]:
    """Each file's first, fifth, …; the ones between only where all is tested: an answer takes half a second."""
    return [
        pytest.param(
            name,
            (YES if entry.get("yes") else "") + entry["source"],
            id=f"{name}-{number}",
            marks=[] if number % 4 == 1 else [pytest.mark.whole],
        )
        for name, question in QUESTIONS.items()
        for number, entry in enumerate(question.get(kind, ()), 1)
    ]


def judged(zygote: Zygote, name: str, source: str, limits: Limits = LIMITS) -> Outcome:
    question = QUESTIONS[name]
    return only(run(zygote, answer(source), check(question["test"]), beside=question["reference"], limits=limits))


@pytest.mark.parametrize(("name", "source"), rows("cheat"))
def test_a_cheat_gets_nothing(name: str, source: str, zygote: Zygote) -> None:
    outcome = judged(zygote, name, source, SOON)  # one never ends
    assert not outcome.points, outcome


@pytest.mark.parametrize(("name", "source"), one_in(2, rows("word")))
def test_points_of_an_answer_that_only_claims_to_be_right_rest_on_its_word(
    name: str, source: str, zygote: Zygote
) -> None:
    outcome = judged(zygote, name, source)
    assert (outcome.kind, outcome.alone) == (Ending.PASSED, True), outcome


@pytest.mark.parametrize(("name", "source"), one_in(2, rows("honest")))
def test_an_honest_answer_of_another_style_keeps_every_point(name: str, source: str, zygote: Zygote) -> None:
    outcome = judged(zygote, name, source)
    assert (outcome.kind, outcome.alone) == (Ending.PASSED, False), outcome


@pytest.mark.parametrize("name", one_in(4, QUESTIONS))
def test_so_does_the_reference_answer_itself(name: str, zygote: Zygote) -> None:
    outcome = judged(zygote, name, QUESTIONS[name]["reference"])
    assert (outcome.kind, outcome.alone, outcome.claims) == (Ending.PASSED, False, ()), outcome


VECTOR = """
class Vector:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return self.x == getattr(other, "x", other)
    def near(self, x): return abs(self.x - x) < 1e-9
"""


@pytest.mark.parametrize(
    ("looks", "alone"),
    [
        ("", True),
        ("assert y.detach().requires_grad is False", True),
        ("assert y.detach().tolist() == [2.0]", False),
        ("assert (y.data.numpy() == 2).all()", False),
        ("assert torch.equal(y, torch.full((1,), 2.0))", False),
    ],
)
def test_numbers_read_of_a_tensor_by_another_name_are_numbers(looks: str, alone: bool, zygote: Zygote) -> None:
    test = f"import torch\ny = f(torch.ones(1, requires_grad=True))\nassert y.requires_grad\n{looks}"
    outcome = only(run(zygote, answer("def f(x): return 2 * x"), check(test)))
    assert (outcome.kind, outcome.claims, outcome.alone) == (Ending.PASSED, ("requires_grad",), alone)


@pytest.mark.parametrize(
    ("test", "claims", "alone"),
    [
        ("assert Vector(1) == Vector(1)", ("__eq__ of Vector",), True),
        ("assert Vector(1) == 1", ("__eq__ of Vector",), True),
        ("assert Vector(1).near(1)", ("near of Vector",), True),
        ("assert Vector(1).x == 1 and Vector(1) == 1", ("__eq__ of Vector",), False),
        ("assert Vector(1).x == 1", (), False),
        ("import torch\nassert Vector(torch.ones(1)).near(torch.ones(1))", ("near of Vector",), True),
    ],
)
def test_points_that_rest_on_words_alone_say_so(test: str, claims: Any, alone: bool, zygote: Zygote) -> None:
    outcome = only(run(zygote, answer(VECTOR), check(test), beside=VECTOR))
    assert (outcome.kind, outcome.claims, outcome.alone) == (Ending.PASSED, claims, alone)


def test_a_yes_of_an_error_s_own_method_is_a_word_too(zygote: Zygote) -> None:
    source = "class Short(Exception):\n    lacks = lambda self, n: True\ndef f(n): raise Short(n)"
    test = "try:\n    f(3)\nexcept Short as error:\n    assert error.lacks(3){and_so}\nelse:\n    assert False"
    for and_so, claims in (("", ("a call of function",)), (" and error.args == (3,)", ("a call of function",))):
        outcome = only(run(zygote, answer(source), check(test.format(and_so=and_so)), beside=source))
        assert (outcome.kind, outcome.claims) == (Ending.PASSED, claims)


def test_what_an_error_s_method_gives_has_a_place_with_a_name(zygote: Zygote) -> None:
    lies = "type('Yes', (), {'__eq__': lambda s, o: True})()"
    beside = "class Short(Exception):\n    def say(self): return 'short'\ndef f(): raise Short()"
    test = check("try:\n    f()\nexcept Short as error:\n    assert error.say() == 'short'\nelse:\n    assert False")
    assert only(run(zygote, answer(beside), test, beside=beside)).kind is Ending.PASSED
    outcome = only(run(zygote, answer(beside.replace("'short'", lies)), test, beside=beside))
    assert (outcome.points, outcome.message) == (0, "f's error's say returned a Yes, expected a str.")


def test_a_word_that_the_reference_answer_did_not_give_makes_points_rest_on_it(zygote: Zygote) -> None:
    plain = "class Vector:\n    def __init__(self, x): self.x = x"
    test = check("v = Vector(1)\nassert v.x == 1 and (v == Vector(1)) in (True, False)")
    assert not only(run(zygote, answer(plain), test, beside=plain)).alone
    assert only(run(zygote, answer(VECTOR), test, beside=plain)).alone


def test_but_not_one_that_python_would_say_of_any_object(zygote: Zygote) -> None:
    plain = "class Vector:\n    def __init__(self, x): self.x = x"
    test = check("v = Vector(1)\nassert v.x == 1 and v in [v, 3] and 3 != v and v == v and v")
    outcome = only(run(zygote, answer(VECTOR), test, beside=plain))
    assert (outcome.kind, outcome.alone, bool(outcome.claims)) == (Ending.PASSED, False, True)


@pytest.mark.parametrize(
    ("test", "alone"),
    [
        ("import torch\nassert w.is_leaf and torch.is_tensor(w) and callable(f)", True),
        ("assert w.is_leaf and number == 3", False),
        ("assert w.is_leaf and f() == 3", False),
        ("assert w.is_leaf and w.tolist() == [1, 1]", False),
    ],
)
def test_facts_beside_nothing_that_is_data_stand_alone(test: str, alone: bool, zygote: Zygote) -> None:
    source = "import torch\nw = torch.ones(2, requires_grad=True)\nnumber = 3\ndef f(): return 3"
    outcome = only(run(zygote, answer(source), check(test), beside=source))
    assert (outcome.kind, outcome.claims, outcome.alone) == (Ending.PASSED, ("is_leaf",), alone)


def test_the_text_of_a_function_is_the_student_s_word(zygote: Zygote) -> None:
    source, test = "def f(): return 3", "import inspect\nassert 'return' in inspect.getsource(f)"
    outcome = only(run(zygote, answer(source), check(test), beside=source))
    assert (outcome.kind, outcome.claims, outcome.alone) == (Ending.PASSED, ("the text of a function",), True)
    assert not only(run(zygote, answer(source), check(f"{test}\nassert f() == 3"), beside=source)).alone


@pytest.mark.parametrize(
    ("reference", "source", "test"),
    [
        ("def f(x): return x * 2", "def f(x): return np.zeros((0, 1))", "assert np.allclose(f(x), x + x)"),
        ("def f(x): return x * 2", "def f(x): return np.zeros((0, 1))", "assert (f(x) == x + x).all()"),
        ("def f(x): return x.sum()", "def f(x): return np.zeros(0)", "np.testing.assert_allclose(f(x), 3)"),
        (
            "def f(x): return torch.tensor(x) * 2",
            "def f(x): return torch.zeros(0, 1, dtype=torch.float64)",
            "assert torch.allclose(f(x), torch.tensor(x) * 2)",
        ),
        ("def f(x): return [*x]", "def f(x): return []", "assert all(a == b for a, b in zip(f(x), x))"),
        ("def f(x): return [[*x]]", "def f(x): return [[]]", "assert all(a > 0 for row in f(x) for a in row)"),
        ("def f(x): return 'ab'", "def f(x): return ''", "assert f(x) in 'abc'"),
        ("def f(x): yield from x", "def f(x): yield from ()", "for a, b in zip(f(x), x): assert a == b"),
        ("f = {'a': 1}", "f = {}", "assert set(f) <= {'a'}"),
        ("import io\nf = io.StringIO('1')", "import io\nf = io.StringIO()", "assert all(map(int, f.getvalue()))"),
    ],
)
def test_nothing_where_the_reference_had_something_makes_points_rest_on_it(
    reference: str, source: str, test: str, zygote: Zygote
) -> None:
    imports = "import numpy as np, torch\n"
    question = check(f"{imports}x = np.array([1.0, 2.0])\n{test}")
    outcome = only(run(zygote, answer(imports + source), question, beside=imports + reference))
    assert (outcome.kind, outcome.alone) == (Ending.PASSED, True), outcome
    assert any(claim.startswith("nothing in it: f") for claim in outcome.claims)
    assert not only(run(zygote, answer(imports + reference), question, beside=imports + reference)).alone
    assert not only(run(zygote, answer(imports + source), question, beside=imports + source)).alone


@pytest.mark.parametrize(
    ("source", "points"),
    [
        ("def f(k): return k * k", 2.0),
        ("import numpy as np\ndef f(k): return np.int64(k)", 0.5),
        ("import numpy as np\ndef f(k): return np.array(k)", 0.5),
        ("import torch\ndef f(k): return torch.tensor(k + 0.5)", 0.0),
        ("from fractions import Fraction\ndef f(k): return Fraction(k * k)", 2.0),
        ("import numpy as np\ndef f(k): return np.array([k, 0])", 0.0),
    ],
)
def test_a_score_is_a_number_whatever_the_answer_gave(source: str, points: float, zygote: Zygote) -> None:
    test = check("sum(f(k) == k * k for k in range(1, 5)) / 2", points=2)
    outcome = only(run(zygote, answer(source), test, beside="def f(k): return k * k"))
    assert outcome.points == points, outcome


def test_what_can_only_be_iterated_over_is_told_so_when_it_is_called(zygote: Zygote) -> None:
    beside = "class f:\n    def __init__(self, x): self.x = x"
    outcome = only(
        run(zygote, answer("from unittest.mock import MagicMock\nf = MagicMock()"), check("f(1)"), beside=beside)
    )
    assert "__call__ of MagicMock: it can only be iterated over here" in outcome.message


@pytest.mark.parametrize(
    ("source", "said", "kind"),
    [
        ("class Odd: pass\ndef f(x): return Odd()", "f returned an Odd, expected a float.", Ending.FAILED),
        ("def f(x): return [lambda: x]", "f returned, inside, a <lambda>, expected data.", Ending.FAILED),
        ("import string\ndef f(x): return string.Template('a')", "a person has to look", Ending.BY_HAND),
    ],
)
def test_what_stands_in_no_role_fails_or_waits_with_a_sentence(
    source: str, said: str, kind: Ending, zygote: Zygote
) -> None:
    test = check("found = f(2)\nif type(found) is list: found = found[0]()\nassert found == 1.0")
    outcome = only(run(zygote, answer(source), test, beside="def f(x): return x / 2"))
    assert outcome.kind is kind
    assert said in outcome.message
    without = only(run(zygote, answer(source), test, reference="def f(x): return x"))
    assert (without.kind, without.points) == (Ending.BY_HAND, None)


def test_a_file_that_is_read_to_its_end_says_nothing_either(zygote: Zygote) -> None:
    reference = "import io\ndef f():\n    return io.StringIO('1\\n2\\n')"
    source = "import io\ndef f():\n    file = io.StringIO('nothing')\n    file.read()\n    return file"
    question = check("for line in f():\n    assert int(line) < 3")
    outcome = only(run(zygote, answer(source), question, beside=reference))
    assert (outcome.kind, outcome.alone) == (Ending.PASSED, True), outcome
    assert outcome.claims[-1].startswith("nothing left to read in it: f"), outcome
    assert not only(run(zygote, answer(reference), question, beside=reference)).alone


@pytest.mark.parametrize("name", ["score", "assert_score"])
def test_a_check_that_gives_a_score_gives_it(name: str, zygote: Zygote) -> None:
    """Its value stays the cell's last expression, whatever is noted of it."""
    test = check(f"def {name}(): return f(1) / 4\n{name}()", points=1)
    assert only(run(zygote, answer("def f(x): return x"), test, beside="def f(x): return x")).points == 0.25


def test_what_only_begins_a_history_crosses_without_its_gradient_until_it_is_passed(zygote: Zygote) -> None:
    test = """import torch
w = torch.tensor([3.0, 5.0], requires_grad=True)
w.grad = torch.tensor([7.0, 9.0])
assert behind((w * 2).sum()) == 0
assert behind(w) == 7 + 9"""
    source = """
def behind(x):
    leaf = x if x.is_leaf else x.grad_fn.next_functions[0][0].variable
    return float(leaf.grad.sum()) if leaf.grad is not None else 0.0
"""
    outcome = only(run(zygote, answer(source), check(test)))
    assert outcome.kind is Ending.PASSED, outcome
