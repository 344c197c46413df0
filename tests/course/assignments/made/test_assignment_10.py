"""Assignment 10: its programs do what their owners say, and seegrad names the line that is keyed."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

import seegrad
from tests.course.answer_files import answers, before, exercises

NAME = "10_a_model_that_trains"
KINDS = {"P": ["graph_kept"], "Q": ["kept_by_reference"], "R": ["cleared_each_backward"], "S": []}


def listings() -> dict[str, str]:
    """The programs of exercise 2 by their letter, without the numbers of their lines."""
    text = "\n".join(cell.source for cell in before(NAME, "find") if cell.cell_type == "markdown")
    found = re.findall(r"\*\*Program ([P-S])\.\*\*.*?```\n(.*?)```", text, re.DOTALL)
    return {letter: re.sub(r"^(\d |\d\d) {2}", "", code, flags=re.MULTILINE) for letter, code in found}


def key(exercise: str) -> dict[str, int]:
    names: dict[str, Any] = {}
    exec(next(a.source for a in answers(NAME) if a.cell == exercise and a.right), names)  # noqa: S102  # the course's own
    return dict(names["found"])


def start() -> dict[str, Any]:
    """What stands above the programs."""
    torch.manual_seed(0)
    x = torch.tensor([[1.0, -1.0], [0.5, 2.0], [-1.5, 0.5], [2.0, 1.0]])
    return {"torch": torch, "nn": nn, "x": x, "y": torch.tensor([[1.0], [0.0], [-1.0], [2.0]])}


def ran(code: str) -> dict[str, Any]:
    names = start()
    exec(code, names)  # noqa: S102  # the exercise's own lines
    return names


@pytest.mark.parametrize("letter", "PQRS")
def test_seegrad_names_the_keyed_line_and_finds_nothing_in_the_program_that_is_right(letter: str) -> None:
    code = listings()[letter]
    file = f"program {letter}"
    names = start()
    with seegrad.record(code=(file, 1, code)) as rec:
        exec(compile(code, file, "exec"), names)  # noqa: S102  # the exercise's own lines
    assert [one.kind for one in rec.diagnoses] == KINDS[letter]
    lines = [one.culprit.line for one in rec.diagnoses if one.culprit is not None]
    assert lines == [line for line in [key("find")[letter]] if line]


def test_p_holds_the_graphs_and_mended_it_holds_numbers() -> None:
    code = listings()["P"]
    assert ran(code)["total"].grad_fn is not None
    mended = code.replace("+= loss", "+= loss.item()").replace("total.item()", "total")
    assert ran(mended)["mean"] == pytest.approx(ran(code)["mean"])


def test_q_goes_back_to_the_last_weights_and_mended_to_better_ones() -> None:
    code = listings()["Q"]
    copied = "{name: each.clone() for name, each in model.state_dict().items()}"

    def loss_after(program: str) -> float:
        names = ran(program)
        return (names["model"](names["x"]) - names["y"]).pow(2).mean().item()  # type: ignore[no-any-return]  # a number

    last = loss_after(code.replace("model.load_state_dict(best)\n", ""))
    assert loss_after(code) == last
    assert loss_after(code.replace("model.state_dict()", copied)) < last


def test_r_uses_one_half_and_s_the_whole_batch() -> None:
    def weights(program: str) -> torch.Tensor:
        return torch.as_tensor(ran(program)["model"].weight.detach())

    programs = listings()
    whole = programs["S"].replace("halves = ((x[:2], y[:2]), (x[2:], y[2:]))", "halves = ((x, y),)")
    whole = whole.replace(".mean() / 2", ".mean()")
    second = programs["R"].replace("halves = ((x[:2], y[:2]), (x[2:], y[2:]))", "halves = ((x[2:], y[2:]),)")
    assert torch.allclose(weights(programs["S"]), weights(whole))
    assert torch.equal(weights(programs["R"]), weights(second))
    assert not torch.allclose(weights(programs["R"]), weights(whole), atol=0.01)


def test_what_is_to_be_repaired_has_the_mistakes_that_the_prompts_count() -> None:
    """Recorded with five steps and mended one after the other, as the hint says."""
    given = exercises(NAME)["repair_stack"][0].source.partition("### BEGIN SOLUTION")[0]
    mends = [
        ("", ""),
        ("[nn.Parameter(w) for w in inner]", "nn.ParameterList(nn.Parameter(w) for w in inner)"),
        ("        loss.backward()", "        optimizer.zero_grad()\n        loss.backward()"),
        ("append(loss)", "append(loss.item())"),
    ]
    told = []
    for old, new in mends:
        given = given.replace(old, new) if old else given
        names = start()
        exec(compile(given, "stack", "exec"), names)  # noqa: S102  # the exercise's own lines
        with seegrad.record(code=("stack", 1, given)) as rec:
            names["fit"]([torch.ones(2, 2)], torch.ones(2, 1), names["x"], names["y"], 0.1, 5)
        told.append({one.kind for one in rec.diagnoses})
    kinds = ["no_optimiser_holds_it", "gradients_never_cleared", "graph_kept"]
    assert [set(kinds[number:]) for number in range(4)] == [found & set(kinds) for found in told]
