"""Assignment 07: its keyed answers are true, as torch says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from seegrad.check import CheckFailed
from tests.course.answer_files import exercises, program, prompt

NAME = "07_dynamic_graphs"
ROUNDS = 10


def test_the_programs_to_predict_are_those_that_are_tested() -> None:
    rows = re.findall(r"^\| ([A-F]) \| (.*) \|$", prompt(NAME, "predict"), re.MULTILINE)
    shown = {letter: "\n".join(re.findall(r"`([^`]+)`", codes)) for letter, codes in rows}
    source = exercises(NAME)["predict"][1].source
    tested = {
        letter: code.replace("\\n", "\n") for letter, code in re.findall(r'^    "([A-F])": "(.*)",$', source, re.M)
    }
    assert shown == tested
    assert len(shown) == 6


def run(lines: Mapping[int, str]) -> tuple[str, dict[str, Any]]:
    """What comes of a program like that one, and the names it leaves."""
    torch.manual_seed(0)
    names: dict[str, Any] = {"torch": torch, "w": torch.rand(3, requires_grad=True)}
    names["data"] = [(torch.rand(3), torch.rand(3)) for _ in range(ROUNDS)]
    try:
        exec("\n".join(lines.values()), names)  # noqa: S102  # the exercise's own lines
    except RuntimeError as error:
        return str(error), names
    return "fine", names


def test_the_culprit_is_the_one_line_where_a_detach_mends_it() -> None:
    lines = program(NAME)
    assert "a second time" in run(lines)[0]
    detached = {4: ("h)", "h.detach())"), 5: ("(z)", "(z.detach())"), 6: ("(h", "(h.detach()")}
    outcomes = {
        number: run({**lines, number: lines[number].replace(*change)})[0] for number, change in detached.items()
    }
    assert [number for number, outcome in outcomes.items() if outcome == "fine"] == [4]


def test_the_victim_is_the_tanh_of_the_round_before() -> None:
    """In the second round backward has passed everything down to this Node, and it alone has nothing left."""
    _, left = run(program(NAME))
    node = left["loss"].grad_fn.next_functions[0][0].next_functions[0][0]  # of the second round: sum, sub, tanh
    assert node.name() == "TanhBackward0"
    before_it = node.next_functions[0][0].next_functions[1][0].next_functions[1][0]  # mul, add, and out of the round
    assert before_it.name() == "TanhBackward0"
    with pytest.raises(RuntimeError, match="freed"):
        before_it._saved_result  # noqa: B018  # reading it is the question


def test_with_the_flag_the_update_hits_what_an_earlier_round_saved() -> None:
    lines = program(NAME)
    assert "modified by an inplace operation" in run({**lines, 8: "    loss.backward(retain_graph=True)"})[0]


def test_as_many_graphs_hang_on_the_total_as_there_are_rounds() -> None:
    mended = {**program(NAME), 4: "    z = w * (x + h.detach())", 7: "    total = total + loss"}
    outcome, names = run(mended)
    assert outcome == "fine"
    found, waiting = [], [names["total"].grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.append(node)
            waiting += [earlier for earlier, _ in node.next_functions]
    assert [node.name() for node in found].count("TanhBackward0") == ROUNDS


def test_what_is_to_be_repaired_raises_nothing_and_learns_the_wrong_thing() -> None:
    solution, test = exercises(NAME)["repair_fit"]
    names: dict[str, Any] = {"torch": torch}
    given = re.sub(r"### BEGIN SOLUTION\n.*### END SOLUTION", "", solution.source, flags=re.DOTALL)
    exec(given, names)  # noqa: S102  # the course's own cell
    with pytest.raises(CheckFailed) as failure:
        exec(test.source, names)  # noqa: S102  # the course's own cells
    assert not failure.value.misconceptions
    assert "A graph is a record" in str(failure.value)
