"""Assignment 02: its keyed answers are true, as torch says."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from tests.course.answer_files import exercises, master, program, prompt

NAME = "02_leaf_tensors"
BATCHES = [(torch.tensor([1.0, 0.5, -1.0], dtype=torch.float64), 1.0)] * 30


def keyed(exercise: str) -> dict[str, Any]:
    """The instructor's own answer."""
    names: dict[str, Any] = {}
    exec(exercises(NAME)[exercise][0].source, names)  # noqa: S102  # the course's own cell
    (value,) = (value for name, value in names.items() if name != "__builtins__")
    return dict(value)


def rows(exercise: str) -> dict[str, str]:
    """The lettered lines of code in the tables of a prompt."""
    return dict(re.findall(r"^\| ([A-Z]) \| (.*) \|$", prompt(NAME, exercise), re.MULTILINE))


def test_leaf_or_not_is_what_torch_says_of_the_lines_in_the_prompt() -> None:
    said: dict[str, bool] = {}
    for letter, cell in rows("predict").items():
        names: dict[str, Any] = {"torch": torch}
        names |= {"w": torch.tensor([1.0, 2.0], requires_grad=True), "model": torch.nn.Linear(2, 1)}
        exec(cell.strip("`"), names)  # noqa: S102  # the exercise's own line
        said[letter] = names["t"].is_leaf
    assert said == keyed("predict")


def test_what_stands_in_grad_is_what_the_program_in_the_prompt_leaves_there() -> None:
    names: dict[str, Any] = {"torch": torch}
    (lines,) = re.findall(r"```\n(.*?)```", prompt(NAME, "predict_grads"), re.DOTALL)
    exec(lines, names)  # noqa: S102  # the exercise's own program
    with warnings.catch_warnings(action="ignore"):
        came = {name: names[name].grad for name in keyed("predict_grads")}
    assert {name: "none" if grad is None else grad.item() for name, grad in came.items()} == keyed("predict_grads")


def trained(lines: Mapping[int, str]) -> dict[str, Any] | None:
    """The names that a program like that one leaves behind, None where it doesn't run."""
    names: dict[str, Any] = {"torch": torch, "batches": BATCHES, "print": lambda *_: None}
    try:
        with warnings.catch_warnings(action="ignore"):
            exec("\n".join(lines.values()), names)  # noqa: S102  # the exercise's own lines
    except (NameError, RuntimeError, SyntaxError, ValueError):
        return None
    return names


def learns(lines: Mapping[int, str]) -> bool:
    names = trained(lines)
    if names is None or "w" not in names:
        return False
    x, y = BATCHES[0]
    return bool(((names["w"] * x).sum() - y).abs() < 0.1)


def test_the_program_to_search_learns_nothing_and_its_gradient_is_in_the_tensor_of_line_1() -> None:
    names = trained(program(NAME))
    assert names is not None
    assert not names["w"].any()
    assert names["w"].grad_fn.next_functions[0][0].variable.grad is not None
    assert names["optimizer"].param_groups[0]["params"][0].any()


def test_the_culprit_is_the_one_line_without_which_it_learns() -> None:
    lines = program(NAME)
    assert not learns(lines)
    assert [number for number in lines if learns({k: v for k, v in lines.items() if k != number})] == [3]


def test_only_repair_c_lets_it_learn() -> None:
    lines = program(NAME)
    assert set(rows("find")) == set("ABCD")
    changed = {
        "A": {**lines, 3: f"{lines[3]}\nw.retain_grad()"},
        "B": {**lines, 7: lines[7].replace("()", "(retain_graph=True)")},
        "C": {**lines, 1: lines[1].replace("(3,", "(3, dtype=torch.float64,"), 3: ""},
        "D": {**lines, 3: f"{lines[3]}.requires_grad_()"},
    }
    assert all(made != lines and trained(made) is not None for made in changed.values())
    assert [letter for letter, made in changed.items() if learns(made)] == ["C"]


def test_an_order_is_right_where_both_halves_go_into_each_step() -> None:
    """All orders of up to four different lines, run three times over: torch agrees with what the exercise asks."""
    names: dict[str, Any] = {}
    hidden = exercises(NAME)["order"][1].source.partition("### BEGIN HIDDEN TESTS")[2]
    exec(f"import torch\n{hidden.partition('start, first, second =')[0]}", names)  # noqa: S102  # the course's own cell
    given = (torch.tensor([0.3, 0.9, 0.6]), torch.tensor([0.6, 1.2, 0.8]), torch.tensor([1.4, 0.7, 1.1]))
    want = names["run"]("ABCD", *given, 3)
    for length in range(1, 5):
        for letters in map("".join, itertools.permutations("ABCDEFGH", length)):
            assert moves(names["run"], letters, given, want) == steps_once(letters), letters


def moves(run: Callable[..., torch.Tensor], letters: str, given: tuple[torch.Tensor, ...], want: torch.Tensor) -> bool:
    with warnings.catch_warnings(action="ignore"):
        try:
            return torch.allclose(run(letters, *given, 3), want)
        except (RuntimeError, TypeError):
            return False


def steps_once(letters: str) -> bool:
    """Between emptying and the step stand both halves, in one line or in two; nothing is left over for the next."""
    if set(letters) - set("ABCDG") or not {"A", "D"} <= set(letters):
        return False
    before_a, _, after_a = letters.partition("A")
    used, left_over = (after_a, "") if "D" in after_a else (before_a, after_a)
    return set(used.partition("D")[0]) in ({"B", "C"}, {"G"}) and not left_over


@pytest.mark.parametrize("exercise", ["repair", "write"])
def test_the_code_that_is_given_is_broken_or_empty(exercise: str) -> None:
    source = next(cell for cell in master(NAME).cells if cell.grade_id == exercise).source
    given = re.sub(r"### BEGIN SOLUTION.*?### END SOLUTION", "pass", source, flags=re.DOTALL)
    names: dict[str, Any] = {"torch": torch}
    exec(given, names)  # noqa: S102  # the course's own cell
    if exercise == "write":
        assert names["accumulate"](torch.ones((), requires_grad=True), []) is None
        return
    with pytest.raises(TypeError), warnings.catch_warnings(action="ignore"):
        names["fit"](torch.ones(2), torch.ones(3, 2), torch.ones(3), 0.1, 1)
