"""Chapter 07: what its prose says of its outputs is what stands in them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.course.chapters.test_chapter import chapter, shown

MASTER = Path(__file__).parents[3] / "notebooks" / "07_dynamic_graphs.py"


def test_predictions_come_before_the_key_cells_and_misconceptions_are_named() -> None:
    text = MASTER.read_text(encoding="utf-8")
    assert {"outcome", "keeps", "saves", "order"} <= set(re.findall(r'ask[ =]"?(\w+)', text))
    assert text.count("**Predict") >= 25
    for number in ("M06", "M09", "M10"):
        assert f"**{number}**" in text


def test_a_loop_leaves_as_many_nodes_as_it_ran_rounds() -> None:
    lines = shown(MASTER, "for start in (50.0, 3.0, 0.5)").splitlines()
    assert {line.split()[0]: line.count("MulBackward0") - 1 for line in lines} == {"50.0": 0, "3.0": 3, "0.5": 6}


def test_who_saves_nothing_runs_twice() -> None:
    outcomes = {line[:8].strip(): "raises" not in line for line in shown(MASTER, "functions = {").splitlines()}
    assert [name for name, twice in outcomes.items() if twice] == ["x + 2", "clone", "cumsum", "reshape", "mean"]
    assert shown(MASTER, "_saved_other") == "(tensor(3), None)"


def test_an_error_in_the_middle_leaves_one_gradient_doubled() -> None:
    found = [cell for cell in chapter(MASTER).cells if cell.source == "a.grad, b.grad"]
    texts = [cell.outputs[0].data["text/plain"] for cell in found]
    assert texts == ["(tensor(4.), None)", "(tensor([6., 2.]), tensor([2., 2.]))"]


def test_fifty_graphs_hang_on_the_total_and_none_on_the_plain_one() -> None:
    assert shown(MASTER, "plain.grad_fn").splitlines() == ["total 151 250.0", "plain None 250.0"]


def test_with_the_flag_each_step_is_longer_and_without_all_are_alike() -> None:
    retained, detached = (ast.literal_eval(line[line.index("[") :]) for line in shown(MASTER, "def train").splitlines())
    assert retained == sorted(set(retained))
    assert len(set(detached)) == 1


def test_what_was_computed_once_learns_nothing() -> None:
    lines = shown(MASTER, "h = w * scale").splitlines()
    assert len(lines) == 4
    assert len({line.split()[0] for line in lines}) == 1
    assert len({line.split(maxsplit=1)[1] for line in lines}) == 4


def test_compile_captures_once_breaks_at_the_if_and_guards_the_count() -> None:
    assert shown(MASTER, "built = []").startswith("1 [")
    assert re.findall(r"^ *-?\d\.0 (\d)", shown(MASTER, "(1.0, 2.0, -1.0, -2.0)"), re.MULTILINE) == ["2", "2", "3", "3"]
    assert re.findall(r"graphs (\d)", shown(MASTER, "(2, 2, 3, 2, 4)")) == ["1", "1", "2", "2", "3"]
    assert shown(MASTER, 'backend="aot_eager"').startswith("['CompiledFunctionBackward', ")
