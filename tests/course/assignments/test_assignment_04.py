"""Assignment 04: its keyed answers are true, as torch says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from tests.course.answer_files import answers, exercises, program, prompt

NAME = "04_inplace_and_version"


def key(exercise: str) -> dict[str, Any]:
    """The right answer of an exercise of choices."""
    names: dict[str, Any] = {}
    exec(next(a.source for a in answers(NAME) if a.cell == exercise and a.right), names)  # noqa: S102  # the course's own
    (value,) = [value for name, value in names.items() if name != "__builtins__"]
    return dict(value)


def rows(exercise: str) -> dict[str, str]:
    """The programs of a prompt's table by letter, one statement a line."""
    found = re.findall(r"^\| ([A-F]) \| (.*) \|$", prompt(NAME, exercise), re.MULTILINE)
    return {letter: "\n".join(re.findall(r"`([^`]+)`", code)) for letter, code in found}


def test_each_predicted_version_is_the_one_that_the_table_s_program_leaves() -> None:
    programs = rows("predict_versions")
    assert programs.keys() == key("predict_versions").keys()
    for letter, code in programs.items():
        names: dict[str, Any] = {"torch": torch, "t": torch.zeros(4)}
        exec(code, names)  # noqa: S102  # the exercise's own lines
        assert names["t"]._version == key("predict_versions")[letter], letter


def test_each_predicted_outcome_is_torch_s() -> None:
    programs = rows("predict")
    assert programs.keys() == key("predict").keys()
    assert {letter: outcome(code) for letter, code in programs.items()} == key("predict")


def outcome(code: str) -> str:
    """Where a program of exercise 2 raises; if nowhere, whether a finite difference agrees with its gradient."""
    x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    names: dict[str, Any] = {"torch": torch, "x": x}
    try:
        exec(code, names)  # noqa: S102  # the exercise's own lines
    except RuntimeError:
        return "write"
    try:
        names["loss"].backward()
    except RuntimeError:
        return "backward"
    assert x.grad is not None
    return "right" if torch.allclose(x.grad, slopes(code), rtol=1e-4) else "silent"


def slopes(code: str, h: float = 1e-6) -> torch.Tensor:
    """What the loss of a program does when each number of its x is moved a little."""

    def loss(start: torch.Tensor) -> torch.Tensor:
        names: dict[str, Any] = {"torch": torch, "x": start.clone()}
        exec(code, names)  # noqa: S102  # the same
        loss: torch.Tensor = names["loss"]
        return loss

    start, steps = torch.tensor([0.5, 1.0], dtype=torch.float64), h * torch.eye(2, dtype=torch.float64)
    return torch.stack([(loss(start + step) - loss(start - step)) / (2 * h) for step in steps])


@pytest.mark.parametrize("exercise", ["predict_versions", "predict"])
def test_the_programs_of_the_table_are_those_that_are_tested(exercise: str) -> None:
    tested = exercises(NAME)[exercise][1].source.replace("\\n", "\n")
    assert len(rows(exercise)) == 6
    for code in rows(exercise).values():
        assert f'"{code}"' in tested


def run(lines: Mapping[int, str]) -> tuple[str, dict[str, Any]]:
    """How the program ends: its own words, or `raises`; and its names."""
    names: dict[str, Any] = {name: torch.tensor([0.3, 0.9, 2.0]) for name in "xy"}
    names["w"] = torch.ones(3, requires_grad=True)
    try:
        exec("\n".join(lines.values()), names)  # noqa: S102  # the exercise's own lines
    except NameError:
        return "doesn't run", names
    except RuntimeError as error:
        return ("raises" if "inplace operation" in str(error) else "doesn't run"), names
    return "runs", names


def test_the_culprit_is_the_one_line_without_which_backward_runs() -> None:
    lines, found = program(NAME), key("find")
    ended, names = run(lines)
    assert ended == "raises"
    assert names["g"]._version == found["version"]
    without = {number: run({k: v for k, v in lines.items() if k != number})[0] for number in lines if number != 8}
    assert [number for number, came in without.items() if came == "runs"] == [found["culprit"]]


def test_the_victim_saved_what_the_culprit_overwrote() -> None:
    """In the graph of the program without its last three lines the only saved value that is `g` is the sigmoid's."""
    names = run({number: line for number, line in program(NAME).items() if number <= 5})[1]
    node, seen = names["loss"].grad_fn, []
    while node is not None:
        saved = [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
        mine = [
            value for value in saved if isinstance(value, torch.Tensor) and value.data_ptr() == names["g"].data_ptr()
        ]
        seen += [node.name()] if mine else []
        node = node.next_functions[0][0] if node.next_functions else None
    assert seen == ["SigmoidBackward0"]
    assert "sigmoid" in program(NAME)[key("find")["victim"]]
