"""Nothing of the student's decides a comparison: data crosses by value, all else stands where the reference's did.

Each file of `grader/tests/data/places/` is a question (its reference answer and its test), cheats, of which most pass
in one kernel, and honest answers in other styles.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from nbjudge.model import Ending, Outcome
from nbjudge.process.zygote import Zygote
from nbjudge_tests.trials import answer, check, only, run

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
    return [
        pytest.param(name, (YES if entry.get("yes") else "") + entry["source"], id=f"{name}-{number}")
        for name, question in QUESTIONS.items()
        for number, entry in enumerate(question[kind], 1)
    ]


def judged(zygote: Zygote, name: str, source: str) -> Outcome:
    question = QUESTIONS[name]
    return only(run(zygote, answer(source), check(question["test"]), beside=question["reference"]))


@pytest.mark.parametrize(("name", "source"), rows("cheat"))
def test_a_cheat_gets_nothing(name: str, source: str, zygote: Zygote) -> None:
    outcome = judged(zygote, name, source)
    assert not outcome.points, outcome


@pytest.mark.parametrize(("name", "source"), rows("honest"))
def test_an_honest_answer_of_another_style_keeps_every_point(name: str, source: str, zygote: Zygote) -> None:
    outcome = judged(zygote, name, source)
    assert (outcome.kind, outcome.alone) == (Ending.PASSED, False), outcome


@pytest.mark.parametrize("name", QUESTIONS)
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


def test_a_word_that_the_reference_answer_did_not_give_makes_points_rest_on_it(zygote: Zygote) -> None:
    plain = "class Vector:\n    def __init__(self, x): self.x = x"
    test = check("v = Vector(1)\nassert v.x == 1 and v in [v, 3] and 3 != v")
    assert not only(run(zygote, answer(plain), test, beside=plain)).alone
    assert only(run(zygote, answer(VECTOR), test, beside=plain)).alone


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


@pytest.mark.parametrize(
    ("source", "said", "kind"),
    [
        ("class Odd: pass\ndef f(x): return Odd()", "f returned an Odd, expected a float.", Ending.FAILED),
        ("def f(x): return [lambda: x]", "f returned, inside, a <lambda>, expected data.", Ending.FAILED),
        ("import pathlib\ndef f(x): return pathlib.Path('a')", "a person has to look", Ending.BY_HAND),
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
