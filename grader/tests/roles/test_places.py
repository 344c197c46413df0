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
