"""Assignment 01's keyed answers are true: torch itself is asked about each program as the prompts print it."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
import torch

from tests.course.answer_files import before, exercises

NAME = "01_computational_graphs"
SETUP = """
inp = torch.ones(2, 2, requires_grad=True)
w1, w2, w3 = (torch.tensor(value, requires_grad=True) for value in (2.0, 3.0, 4.0))
"""
LEAVES = ("inp", "w1", "w2", "w3")


def program(exercise: str) -> list[str]:
    """The lines of the program in an exercise's prompt, without their numbers."""
    prompt = "\n".join(cell.source for cell in before(NAME, exercise) if "<details>" not in cell.source)
    (listing,) = re.findall(r"^```\n(.*?)^```", prompt, re.DOTALL | re.MULTILINE)
    return [re.sub(r"^(\d   )", "", line) for line in listing.splitlines()]


def keyed(exercise: str, variable: str) -> Any:
    """The answer that the solution cell gives."""
    names: dict[str, Any] = {}
    exec(exercises(NAME)[exercise][0].source, names)  # noqa: S102  # the course's own cell
    return names[variable]


def run(*lines: str) -> dict[str, Any]:
    names: dict[str, Any] = {"torch": torch}
    exec("\n".join(lines), names)  # noqa: S102  # the exercise's own lines
    return names


def grads(names: dict[str, Any], *wanted: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # asking a non-leaf is the exercise
        return {name: names[name].grad for name in wanted}


def test_who_holds_a_gradient() -> None:
    answer = keyed("predict", "holds")
    names = run(*program("predict"))
    found = {name: "nothing" if grad is None else "gradient" for name, grad in grads(names, *answer).items()}
    assert answer == found


@pytest.mark.parametrize("letter", "ABCDEF")
def test_which_write_does_harm(letter: str) -> None:
    prompt = "\n".join(cell.source for cell in before(NAME, "predict_write"))
    lines = dict(re.findall(r"^\| ([A-F]) \| `(.*)` \|$", prompt, re.MULTILINE))
    want = run(*program("predict_write"), "loss.backward()")["w"].grad
    try:
        came = run(*program("predict_write"), lines[letter], "loss.backward()")["w"].grad
        outcome = "right" if torch.equal(came, want) else "wrong"
    except RuntimeError:
        outcome = "raises"
    assert keyed("predict_write", "outcome")[letter] == outcome


def without(lines: list[str], number: int) -> list[str]:
    return lines[: number - 1] + lines[number:]


def raises(lines: list[str]) -> bool:
    try:
        run(SETUP, *lines)
    except RuntimeError:
        return True
    except NameError:  # a line that others need
        return False
    return False


def test_the_culprit_is_the_write_without_which_backward_runs() -> None:
    lines, answer = program("find"), keyed("find", "found")
    assert raises(lines)
    writes = [number for number, line in enumerate(lines, 1) if re.search(r"\w_\(", line)]
    assert len(writes) == 2
    assert [number for number in writes if not raises(without(lines, number))] == [answer["culprit"]]


def test_the_victim_saved_what_the_culprit_wrote_for_the_tensor_that_is_asked() -> None:
    lines, answer = program("find"), keyed("find", "found")
    names = run(SETUP, *lines[: answer["culprit"]])
    made = lines[answer["victim"] - 1].split(" = ")[0]
    node = names[made].grad_fn
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        _ = node._saved_other  # the factor of the other input, `self`
    assert node._saved_self is names[answer["serves"]]
    assert [line for line in lines if answer["serves"] in line.split(" = ")[0]]


def test_how_many_leaves_hold_a_gradient_after_the_error() -> None:
    lines, answer = program("find"), keyed("find", "found")
    names = run(SETUP, *lines[:-1])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        names["loss"].backward()
    assert sum(grad is not None for grad in grads(names, *LEAVES).values()) == answer["holds"]


def test_the_broken_function_has_the_right_value_and_raises_nothing() -> None:
    """The prompt says so: the value is right, the gradients aren't."""
    given = exercises(NAME)["repair"][0].source.partition("### BEGIN SOLUTION")[0]
    names = run(SETUP, given, "x = torch.tensor([1.0, 2.0])", "loss = loss_of(x, w1, w2, w3)", "loss.backward()")
    x = names["x"]
    assert torch.equal(names["loss"], ((x * 2 + 3) * x * 2 * 4).mean())
    assert {name: grad is None for name, grad in grads(names, "w1", "w2", "w3").items()} == {
        "w1": True,
        "w2": True,
        "w3": False,
    }
