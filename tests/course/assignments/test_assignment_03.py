"""Assignment 03: its keyed answers are true, as torch says."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.course.answer_files import exercises, prompt

NAME = "03_retain_grad_and_hooks"
X = (1.0, 2.0)


def solution(exercise: str, name: str, **given: Any) -> Any:
    names: dict[str, Any] = {"torch": torch, **given}
    exec(exercises(NAME)[exercise][0].source, names)  # noqa: S102  # the course's own cell
    return names[name]


def rows(exercise: str) -> Iterator[list[str]]:
    """The cells of the table in a prompt, code without its backticks."""
    for line in prompt(NAME, exercise).splitlines():
        if re.match(r"\| [A-G] \|", line):
            yield [cell.strip().strip("`") for cell in line.strip("| ").split(" | ")]


@pytest.fixture(autouse=True)
def _reading_a_grad_that_isn_t_kept_is_no_mistake_here() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def kept(program: str) -> str:
    x = torch.tensor(X, requires_grad=True)
    names: dict[str, Any] = {"x": x, "h": x * 3, "print": lambda *_: None}
    try:
        exec(program, names)  # noqa: S102  # the exercise's own lines
    except RuntimeError:
        return "raises"
    return "nothing" if names["h"].grad is None else "gradient"


def test_each_program_keeps_what_the_key_says() -> None:
    programs = dict(rows("predict"))
    assert {letter: kept(program) for letter, program in programs.items()} == solution("predict", "prediction")
    assert len(programs) == 7


def test_each_number_is_what_the_printed_program_gives_and_stands_among_its_choices() -> None:
    for k in range(2, 10):
        came = {}
        for letter, program, asked, choices in rows("predict_values"):
            x = torch.tensor(2.0, requires_grad=True)
            names: dict[str, Any] = {"x": x, "h": x * k, "seen": []}
            exec(program, names)  # noqa: S102  # the exercise's own lines
            came[letter] = int(eval(asked, names))  # noqa: S307  # the same
            assert came[letter] in [printed(choice, k) for choice in choices.split(", ")]
            assert len({printed(choice, k) for choice in choices.split(", ")}) == 3
        assert came == solution("predict_values", "values", k=k)


def printed(choice: str, k: int) -> int:
    """A choice as it stands in the prompt: `40k²`."""
    number, power = re.fullmatch(r"(\d*)(k?²?)", choice).groups()  # type: ignore[union-attr]  # a choice that isn't one fails here
    return int(number or 1) * k ** {"": 0, "k": 1, "k²": 2}[power]


def program() -> list[str]:
    return re.findall(r"^\d   (.*)$", prompt(NAME, "find"), re.MULTILINE)


def wrong_leaves(lines: list[str]) -> list[str]:
    """The leaves whose gradient isn't what the prompt wants of it."""
    starts = {"u": [0.5, -1.0], "v": [1.0, 2.0], "w": [-0.5, 1.0]}
    names: dict[str, Any] = {name: torch.tensor(start, requires_grad=True) for name, start in starts.items()}
    names["x"] = torch.tensor([2.0, 3.0])
    full = 2 * (names["u"] + names["v"] + names["w"]).detach() * names["x"] ** 2
    exec("\n".join(lines), names)  # noqa: S102  # the exercise's own lines
    wanted = {"u": full.clamp(-1, 1), "v": full, "w": full * 0.1}
    return [name for name, want in wanted.items() if not torch.allclose(names[name].grad, want)]


def test_the_hook_that_writes_spoils_the_victim_and_one_remedy_mends_it() -> None:
    key = solution("find", "found")
    assert wrong_leaves(program()) == [key["victim"]]
    remedies = dict(re.findall(r"^\| ([A-D]) \| `(.*?)` \|$", prompt(NAME, "find"), re.MULTILINE))
    assert len(remedies) == 4
    right = []
    for letter, remedy in remedies.items():
        mended = program()
        mended[key["culprit"] - 1] = f"    {remedy}"
        right += [] if wrong_leaves(mended) else [letter]
    assert right == [key["remedy"]]


def check_repaired(function: Callable[..., Any]) -> bool:
    """Against finite differences in the hidden tensor, with a gradient that was there before."""
    w, x = torch.tensor([1.0, -2.0, 0.5], requires_grad=True), torch.tensor([3.0, 1.0, -1.0])
    w.grad = torch.ones(3)
    came = function(w, x)
    h = (w.detach() * x).double()
    slope = [
        ((h + step).relu() - 1).pow(2).sum() - ((h - step).relu() - 1).pow(2).sum()
        for step in 1e-5 * torch.eye(3, dtype=torch.float64)
    ]
    want = (torch.stack(slope) / 2e-5).float()
    return torch.allclose(came, want, atol=1e-3) and torch.allclose(w.grad, want * x, atol=1e-3)


def test_the_given_function_is_wrong_and_the_repaired_one_right() -> None:
    source = exercises(NAME)["repair"][0].source
    given: dict[str, Any] = {"torch": torch}
    exec(source.partition("### BEGIN SOLUTION")[0], given)  # noqa: S102  # the course's own cell
    assert not check_repaired(given["hidden_gradient"])
    assert check_repaired(solution("repair", "hidden_gradient"))
