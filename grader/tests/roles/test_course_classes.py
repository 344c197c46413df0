"""Objects of classes beside the notebook, or of a package, cross with their state, without code of an answer."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path

import pytest

from nbjudge.grading.trial import run_notebook
from nbjudge.model import Assignment, Ending, Outcome
from nbjudge.process.zygote import Zygote
from nbjudge_tests.trials import LIMITS, answer, check, locked, notebook

FOLDER = Path(__file__).parents[1] / "data" / "classes"
FILES = {path.name: path.read_bytes() for path in FOLDER.glob("*.py")}
HONEST, CHEATS = (tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8")) for name in ("honest", "cheats"))
GIVEN = "from shapes import *"
GRAPHS = {
    "right": "def longer(g): return nx.path_graph(g.number_of_nodes() + 1)",
    "wrong": "def longer(g): return nx.path_graph(g.number_of_nodes())",
    "test": "assert nx.is_isomorphic(longer(nx.path_graph(3)), nx.path_graph(4))",
}


def judged(zygote: Zygote, source: str, test: str, reference: str, given: str = GIVEN) -> Outcome:
    """The outcome of an answer, beside a reference that is judged first."""
    places = dict[str, object]()
    for each, marks in ((reference, {"record": True}), (source, {"places": places})):
        book = notebook(locked(given), answer(each), check(test), reference=reference)
        book["metadata"] |= marks
        (outcome,) = run_notebook(zygote, book, dict(FILES), Assignment("", (), 5, LIMITS, files=FILES)).outcomes
        places[outcome.grade_id] = outcome.places
        if each is reference:
            assert outcome.kind is Ending.PASSED, outcome
    return outcome


@pytest.mark.parametrize("name", HONEST)
def test_a_style_counts_as_in_one_process(name: str, zygote: Zygote) -> None:
    style = HONEST[name]
    right, given = style["right"], style.get("given", GIVEN)
    passed = judged(zygote, right, style["test"], right, given)
    assert (passed.kind, passed.claims) == (Ending.PASSED, ()), passed
    assert style["of_it"] in right
    failed = judged(zygote, right.replace(style["of_it"], style["wrong"]), style["test"], right, given)
    assert failed.kind is Ending.FAILED, failed


@pytest.mark.parametrize("name", CHEATS)
def test_nothing_that_an_answer_says_of_a_class_counts(name: str, zygote: Zygote) -> None:
    case = CHEATS[name]
    outcome = judged(zygote, case["cheat"], case["test"], case["right"], case.get("given", GIVEN))
    assert not outcome.points, outcome
    assert outcome.kind is not Ending.CRASHED


@pytest.mark.skipif(importlib.util.find_spec("networkx") is None, reason="networkx isn't installed")
def test_objects_of_a_package_of_python_files_cross_as_well(zygote: Zygote) -> None:
    given = "import networkx as nx"
    passed = judged(zygote, GRAPHS["right"], GRAPHS["test"], GRAPHS["right"], given)
    assert (passed.kind, passed.claims) == (Ending.PASSED, ()), passed
    for wrong in (GRAPHS["wrong"], f"nx.is_isomorphic = lambda *_: True\n{GRAPHS['wrong']}"):
        assert judged(zygote, wrong, GRAPHS["test"], GRAPHS["right"], given).kind is Ending.FAILED
