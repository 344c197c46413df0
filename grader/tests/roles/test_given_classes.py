"""A class of plain data that the release gives is one and the same for a test and an answer, whatever it is called."""

from __future__ import annotations

import pytest

from nbjudge.grading.trial import run_notebook
from nbjudge.model import Assignment, Ending, Outcome
from nbjudge.process.zygote import Zygote
from nbjudge_tests.trials import LIMITS, answer, check, locked, notebook

TREES = b"""
import collections, enum
from dataclasses import dataclass

@dataclass
class Node:
    value: int
    left: object = None

class Color(enum.Enum):
    RED, BLACK = 1, 2

Place = collections.namedtuple("Place", "x y")
"""


def judged(zygote: Zygote, given: str, source: str, test: str, reference: str) -> Outcome:
    """The outcome of an answer, beside a reference that is judged first."""
    files, places = {"trees.py": TREES}, {}
    for each, marks in ((reference, {"record": True}), (source, {"places": places})):
        book = notebook(locked(given), answer(each), check(test), reference=reference)
        book["metadata"] |= marks
        (outcome,) = run_notebook(zygote, book, dict(files), Assignment("", (), 5, LIMITS, files=files)).outcomes
        places[outcome.grade_id] = outcome.places
    return outcome


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("from trees import Node", "Node"),
        ("from trees import Node as Leaf", "Leaf"),
        ("import trees", "trees.Node"),
        ("import trees as t", "t.Node"),
        ("from dataclasses import make_dataclass\nKnot = make_dataclass('Node', ['value', 'left'])", "Knot"),
    ],
)
def test_a_data_class_is_by_whatever_name(given: str, name: str, zygote: Zygote) -> None:
    test = f"assert f(1) == {name}(2, {name}(1, 0)) and type(f(1)) is {name} and f(1).left.value == 1"
    for right, kind in ((2, Ending.PASSED), (3, Ending.FAILED)):
        source = "def f(x): return {name}({right}, {name}(x, 0))"
        reference, each = (source.format(name=name, right=number) for number in (2, right))
        outcome = judged(zygote, given, each, test, reference)
        assert (outcome.kind, outcome.claims) == (kind, ()), outcome


@pytest.mark.parametrize("prefix", ["trees.", ""])
def test_so_are_an_enumeration_and_a_named_tuple(prefix: str, zygote: Zygote) -> None:
    given = "import trees" if prefix else "from trees import *\nHue, Spot = Color, Place"
    color, place = ("trees.Color", "trees.Place") if prefix else ("Hue", "Spot")
    test = f"assert f(1) is {color}.RED and g(1) == {place}(1, 2) and isinstance(g(1), {place})"
    source = f"def f(x): return {color}.RED\ndef g(x): return {place}(x, 2)"
    outcome = judged(zygote, given, source, test, source)
    assert (outcome.kind, outcome.claims) == (Ending.PASSED, ()), outcome


def test_a_class_within_a_class_is_the_one_that_answers_use(zygote: Zygote) -> None:
    given = "from dataclasses import dataclass\nclass Tree:\n    @dataclass\n    class Node:\n        value: int"
    test = "assert type(f(1)) is Tree.Node and isinstance(f(1), Tree.Node) and f(1).value == 2"
    source = "def f(x): return Tree.Node(x + 1)"
    outcome = judged(zygote, given, source, test, source)
    assert (outcome.kind, outcome.alone) == (Ending.PASSED, False), outcome


@pytest.mark.parametrize(
    "source",
    [
        "class Node:\n    __eq__ = lambda s, o: True\ndef f(x): return Node()",
        "import trees\nclass Fake(trees.Node): __eq__ = lambda s, o: True\ndef f(x): return Fake(0)",
        "import trees\ntrees.Node.__eq__ = lambda s, o: True\ndef f(x): return trees.Node(0)",
        "from dataclasses import make_dataclass\ndef f(x): return make_dataclass('Node', ['value', 'left'])(0, 0)",
    ],
)
def test_who_only_looks_like_it_doesn_t_decide(source: str, zygote: Zygote) -> None:
    test = "assert f(1) == trees.Node(2, 0)"
    outcome = judged(zygote, "import trees", source, test, "def f(x): return trees.Node(2, 0)")
    assert not outcome.points, outcome
