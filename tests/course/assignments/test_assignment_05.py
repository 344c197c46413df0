"""Assignment 05: its keyed answers are true, as torch says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import torch
from nbgrader.utils import determine_grade

from tests.course.answer_files import answers, program
from tests.course.assignments.test_assignment import run_in_one_kernel
from tests.course.graded_class import answered
from tools.book import CourseFiles

NAME = "05_data_versus_detach"


def test_stock_nbgrader_reads_a_part_of_the_points(tmp_path: Path) -> None:
    """nbgrader's own reading of the output of an answer that is partly right: four of five programs."""
    instructor = nbformat.read(CourseFiles().source(NAME), as_version=4)
    partly = next(
        answer for answer in answers(NAME) if answer.cell == "predict" and not answer.right and answer.points is None
    )
    cells = run_in_one_kernel(answered(instructor, [partly]), tmp_path)
    assert determine_grade(cells["predict_test"]) == (12, 15)


def outcome(lines: Mapping[int, str]) -> str:
    """What comes of a program like that one: its gradient against that of the loss alone."""
    names: dict[str, Any] = {"torch": torch, "print": lambda *_: None}
    names |= {name: torch.tensor([0.3, 0.9, 2.0]) for name in "xy"} | {"w": torch.ones(3, requires_grad=True)}
    (want,) = torch.autograd.grad((torch.sigmoid(names["w"] * names["x"]) - names["y"]).pow(2).sum(), names["w"])
    try:
        exec("\n".join(lines.values()), names)  # noqa: S102  # the exercise's own lines
    except NameError:
        return "doesn't run"
    except RuntimeError:
        return "raises"
    came = names["w"].grad
    return "no gradient" if came is None else "right" if torch.allclose(came, want) else "silent"


def test_the_culprit_is_the_one_line_without_which_the_gradient_is_right() -> None:
    lines = program(NAME)
    assert outcome(lines) == "silent"
    without = {number: outcome({k: v for k, v in lines.items() if k != number}) for number in lines}
    assert [number for number, came in without.items() if came == "right"] == [6]
    assert outcome({**lines, 5: "shown = p.detach()"}) == "raises"
