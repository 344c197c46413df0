"""Assignment 06: its keyed answers are true, as torch says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import seegrad
from tests.course.answer_files import exercises, program, prompt

NAME = "06_embedding_clone"


def rows(exercise: str) -> dict[str, str]:
    """The table of a prompt: letter → the program in it."""
    found = re.findall(r"^\| ([A-G]) \| (.*) \|$", prompt(NAME, exercise), re.MULTILINE)
    return {letter: "\n".join(re.findall(r"`([^`]+)`", codes)) for letter, codes in found}


@pytest.mark.parametrize(("exercise", "count"), [("predict_versions", 7), ("predict", 6)])
def test_the_programs_to_predict_are_those_that_are_tested(exercise: str, count: int) -> None:
    source = exercises(NAME)[exercise][1].source
    tested = {
        letter: code.replace("\\n", "\n") for letter, code in re.findall(r'^    "([A-G])": "(.*)",$', source, re.M)
    }
    assert rows(exercise) == tested
    assert len(tested) == count


def keyed(exercise: str, name: str) -> dict[str, object]:
    names: dict[str, dict[str, object]] = {}
    exec(exercises(NAME)[exercise][0].source, names)  # noqa: S102  # the course's own cell
    return names[name]


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_the_versions_hold_whatever_the_numbers_are(scale: float) -> None:
    """A table scaled behind the counter's back: rows that are all short, or all too long."""
    came = {}
    for letter, line in rows("predict_versions").items():
        e = nn.Embedding(3, 2, max_norm=1.0)
        e.weight.data.mul_(scale)
        exec(line, {"e": e, "words": torch.tensor([0, 1])})  # noqa: S102  # the exercise's own line
        came[letter] = e.weight._version
    assert came == keyed("predict_versions", "counters")


def test_the_outcomes_are_what_the_recorder_sees() -> None:
    """A second oracle beside the test cell's own: raised, or a silent corruption of what W's gradient needs."""
    came = {}
    for letter, line in rows("predict").items():
        torch.manual_seed(0)
        e = nn.Embedding(4, 3, max_norm=1.0)
        e.load_state_dict({"weight": torch.rand(4, 3) + 1})
        names: dict[str, Any] = {"e": e, "W": torch.rand(3, 2, requires_grad=True), "words": torch.tensor([1, 3])}
        names["V"] = torch.rand(3, 2)
        with seegrad.record() as rec:
            exec(line, names)  # noqa: S102  # the exercise's own lines
            try:
                (names["a"].sum() + names["b"].sum()).backward()
            except RuntimeError:
                came[letter] = "raises"
        wrong = any(diagnosis.severity == "wrong" for diagnosis in rec.diagnoses)
        came.setdefault(letter, "silent" if wrong else "right")
    assert came == keyed("predict", "prediction")


def shown() -> str:
    return " ".join(prompt(NAME, "find").split())


def run(lines: Mapping[int, str], rounds: int = 3) -> str:
    """What comes of a program like that one after so many rounds; the text of its error where it raises."""
    torch.manual_seed(0)
    words = [(torch.tensor([k]), torch.tensor([k + 1])) for k in range(rounds)]
    names = {"torch": torch, "nn": nn, "F": functional, "pairs": words, "mix": torch.rand(4, 4, requires_grad=True)}
    try:
        exec("\n".join(lines.values()), names)  # noqa: S102  # the exercise's own lines
    except RuntimeError as error:
        return str(error)
    return "fine"


def test_the_program_to_find_in_raises_as_its_prompt_says() -> None:
    error = run(program(NAME))
    assert "[torch.FloatTensor [4, 9]], which is" in error
    assert "is at version 4; expected version 3" in error
    told = re.findall(r"\[torch\S+ \[4, 9\]\], …|is at version \d; expected version \d", shown())
    assert told == ["[torch.FloatTensor [4, 9]], …", "is at version 4; expected version 3"]


def test_the_culprit_writes_and_the_victim_has_saved() -> None:
    lines = program(NAME)
    assert run({**lines, 1: "table = nn.Embedding(9, 4)"}) == "fine", "without the write nothing is wrong"
    assert run({**lines, 5: "    scores = state @ table.weight.clone().t()"}) == "fine", "keyed: clone"
    with seegrad.record() as rec:
        outcome = run(lines)
    assert outcome != "fine"
    culprit, victim = rec.diagnoses[0].culprit, rec.diagnoses[0].victim
    assert culprit is not None
    assert victim is not None
    assert (culprit.line, victim.line) == (4, 5)


def test_the_harm_begins_in_the_second_round_and_eval_doesn_t_prevent_it() -> None:
    lines = program(NAME)
    assert [run(lines, rounds) == "fine" for rounds in (1, 2, 3)] == [True, False, False]
    assert "modified by an inplace operation" in run({**lines, 1: f"{lines[1]}\ntable.eval()"})


def test_what_is_to_be_repaired_raises_and_a_clone_would_be_another_program() -> None:
    given = re.sub(r"### BEGIN SOLUTION\n.*### END SOLUTION", "", exercises(NAME)["repair"][0].source, flags=re.DOTALL)
    table, words = torch.tensor([[3.0, 4.0], [0.3, 0.4]]), torch.tensor([0])
    came = {}
    for way in ("weight @ W", "weight.clone() @ W"):
        names: dict[str, Any] = {"torch": torch, "F": functional}
        exec(given.replace("weight @ W", way), names)  # noqa: S102  # the course's own cell
        scores = names["similarity"](table.clone().requires_grad_(), words, torch.eye(2, requires_grad=True))
        came[way] = scores.detach()[0, 0].item()
        if "clone" not in way:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                scores.sum().backward()
    assert came["weight.clone() @ W"] == pytest.approx(5), "the long row on one side: 5, not 1"
