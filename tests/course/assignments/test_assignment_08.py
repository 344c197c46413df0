"""Assignment 08: its keyed answers are true, as torch says, and the recorder names the same lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812  # torch's own convention

import seegrad
from tests.course.answer_files import ROOT, Answer, answers, before, exercises, master
from tools.course.masters import read_master

NAME = "08_clinic"
KEY = {"A culprit": 4, "A victim": 3, "B culprit": 4, "B victim": 1, "C culprit": 2, "C victim": 1}
REPAIRS = {"A": "repair_scan", "B": "repair_average", "C": "repair_norm"}


def charts() -> dict[str, dict[int, str]]:
    """The programs of exercise 2, by patient and line number."""
    text = "\n".join(cell.source for cell in before(NAME, "find") if cell.cell_type == "markdown")
    parts = re.findall(r"\*\*Patient ([A-C])\*\*.*?```\n(.*?)```", text, re.DOTALL)
    return {patient: numbered(program) for patient, program in parts}


def numbered(program: str) -> dict[int, str]:
    return {int(number): line for number, line in re.findall(r"^(\d)   (.*)$", program, re.MULTILINE)}


def start(patient: str) -> dict[str, Any]:
    """Names that a chart takes for granted."""
    names: dict[str, Any] = {"torch": torch, "F": F}
    if patient == "A":
        return names | {
            "x": torch.tensor([[1.0, -1.0], [0.5, 2.0]], requires_grad=True),
            "w": torch.tensor([[0.5, -0.3], [0.2, 0.8]], requires_grad=True),
        }
    if patient == "B":
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        return names | {"w": w, "average": torch.tensor([0.5, 0.5]), "x": torch.tensor([1.0, 3.0])}
    scale = torch.ones(1, requires_grad=True)
    return names | {"x": torch.tensor([[1.0], [3.0]]), "scale": scale, "mean": torch.zeros(1), "var": torch.ones(1)}


def gradient(patient: str, lines: Mapping[int, str]) -> torch.Tensor | str:
    """What a chart leaves in its `.grad`, or how it ends otherwise."""
    names = start(patient)
    try:
        exec("\n".join(lines.values()), names)  # noqa: S102  # the exercise's own lines
    except (NameError, UnboundLocalError):
        return "doesn't run"
    except RuntimeError:
        return "raises"
    came = names[{"A": "w", "B": "w", "C": "scale"}[patient]].grad
    return "no gradient" if came is None else came


def true_gradient(patient: str) -> torch.Tensor:
    """The same by a program that overwrites nothing."""
    names = start(patient)
    if patient == "A":
        rows = [torch.zeros(2)]
        for row in names["x"]:
            rows.append(torch.tanh(row + rows[-1] @ names["w"]))
        (came,) = torch.autograd.grad(torch.stack(rows).sum(), names["w"])
        return torch.as_tensor(came)
    if patient == "B":
        return torch.mul(names["w"].detach(), 2 * names["x"])
    calm = F.batch_norm(names["x"], names["mean"].clone(), names["var"].clone(), names["scale"])
    live = F.batch_norm(names["x"], None, None, names["scale"], training=True)
    (came,) = torch.autograd.grad((calm - live).pow(2).sum(), names["scale"])
    return torch.as_tensor(came)


@pytest.mark.parametrize(("patient", "ends"), [("A", "raises"), ("B", "silent"), ("C", "silent")])
def test_each_patient_is_as_ill_as_the_assignment_says(patient: str, ends: str) -> None:
    came = gradient(patient, charts()[patient])
    if ends == "raises":
        assert came == "raises"
    else:
        assert isinstance(came, torch.Tensor)
        assert not torch.allclose(came, true_gradient(patient), rtol=1e-2)


@pytest.mark.parametrize("patient", ["B", "C"])
def test_the_culprit_is_the_one_line_without_which_the_gradient_is_right(patient: str) -> None:
    """In C the line also makes `live`: what stands in for it updates nothing."""
    lines, want = charts()[patient], true_gradient(patient)
    spared = {2: lines[2].replace("mean, var", "mean.clone(), var.clone()")} if patient == "C" else {}
    right = []
    for number in lines:
        rest = {k: v for k, v in lines.items() if k != number or number in spared} | {
            k: v for k, v in spared.items() if k == number
        }
        came = gradient(patient, dict(sorted(rest.items())))
        if isinstance(came, torch.Tensor) and torch.allclose(came, want, rtol=1e-4):
            right.append(number)
    assert right == [KEY[f"{patient} culprit"]]


@pytest.mark.parametrize("patient", ["A", "B", "C"])
def test_the_recorder_names_the_keyed_lines(patient: str) -> None:
    text = "\n".join(charts()[patient].values())
    with seegrad.record(code=("chart", 1, text)) as rec:
        run_as("chart", text, start(patient))
    found = rec.diagnoses[0]
    assert found.culprit is not None
    assert found.victim is not None
    assert (found.culprit.line, found.victim.line) == (KEY[f"{patient} culprit"], KEY[f"{patient} victim"])


def run_as(file: str, text: str, names: dict[str, Any]) -> None:
    try:
        exec(compile(text, file, "exec"), names)  # noqa: S102  # the exercise's own lines
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)  # noqa: PT017  # B and C raise nothing


def test_the_key_is_the_solution_s() -> None:
    names: dict[str, Any] = {}
    exec(exercises(NAME)["find"][0].source, names)  # noqa: S102  # the course's own cell
    assert names["found"] == KEY


@pytest.mark.parametrize("patient", REPAIRS)
def test_a_chart_is_the_program_to_repair(patient: str) -> None:
    """Save for how it begins and ends: the same statements, in the same order."""
    source = exercises(NAME)[REPAIRS[patient]][0].source.partition("### BEGIN SOLUTION")[0]
    given = [line.strip() for line in source.splitlines()]
    for line in charts()[patient].values():
        assert line.strip() in given or line.strip() == "h.sum().backward()"


def repairs() -> list[Answer]:
    return [answer for answer in answers(NAME) if answer.cell.startswith("repair_") and answer.right]


@pytest.mark.parametrize("answer", repairs(), ids=str)
def test_nothing_is_left_to_diagnose_in_a_repaired_program(answer: Answer) -> None:
    """What the grader accepts has no error and no wrong gradient in the recorder's eyes either."""
    names: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": F}
    exec(answer.source, names)  # noqa: S102  # the course's own answers
    with seegrad.record() as rec:
        called(answer.cell, names)
    assert [d.kind for d in rec.diagnoses if d.severity != "note"] == []


def called(cell: str, names: dict[str, Any]) -> None:
    if cell == "repair_scan":
        given = start("A")
        names["scan"](given["x"], given["w"]).sum().backward()
    elif cell == "repair_average":
        given = start("B")
        names["validate"](given["w"], given["average"], given["x"])
    else:
        given = start("C")
        names["consistency"](given["x"], given["scale"], given["mean"], given["var"])


# --- order -----------------------------------------------------------------------------------------------------------


def rounds(letters: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    lines = dict(re.findall(r'^    "([A-K])": "(.*)",$', exercises(NAME)["order"][1].source, re.MULTILINE))
    names: dict[str, Any] = {"torch": torch, "lr": 0.05}
    names |= {"real": torch.tensor([1.2, 1.9]), "noise": torch.tensor([0.7, -1.1])}
    names |= {"g": torch.tensor([0.6, 1.1], requires_grad=True), "d": torch.tensor([0.9, 0.7], requires_grad=True)}
    for _ in range(count):
        for letter in letters:
            exec(lines[letter], names)  # noqa: S102  # the exercise's own lines
    return names["g"].detach(), names["d"].detach()


def test_the_keyed_order_learns_as_the_formulas_say() -> None:
    """The derivatives of both losses by hand, three rounds."""
    real, noise, lr = torch.tensor([1.2, 1.9]), torch.tensor([0.7, -1.1]), 0.05
    g, d = torch.tensor([0.6, 1.1]), torch.tensor([0.9, 0.7])
    for _ in range(3):
        fake = g * noise
        d = d - lr * (2 * (d * real - 1) * real + 2 * d * fake * fake)
        g = g - lr * 2 * (d * fake - 1) * d * noise
    came_g, came_d = rounds("ABCDEFGH", 3)
    torch.testing.assert_close(came_g, g)
    torch.testing.assert_close(came_d, d)


def test_the_silent_order_raises_nothing_and_learns_something_else() -> None:
    (silent, _), (right, _) = rounds("ABECKFGH", 3), rounds("ABCDEFGH", 3)
    assert not torch.allclose(silent, right, rtol=1e-4)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        rounds("ABECDFGH", 1)


# --- the chapter -----------------------------------------------------------------------------------------------------


def test_there_are_at_least_ten_patients_in_chapter_and_assignment() -> None:
    chapter = "\n".join(cell.source for cell in read_master(ROOT / "notebooks" / f"{NAME}.py").cells)
    own = set(re.findall(r"Patient (\d)\b", chapter))
    further = set(re.findall(r"patient ([A-D])\b", "\n".join(cell.source for cell in master(NAME).cells)))
    assert len(own) + len(further) >= 10
