"""Chapter 02: what its prose says of its outputs is what stands in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.course.chapters.test_chapter import shown

MASTER = Path(__file__).parents[3] / "notebooks" / "02_leaf_tensors.py"


def test_predictions_come_before_the_key_cells_and_misconceptions_are_named() -> None:
    text = MASTER.read_text(encoding="utf-8")
    assert {"leaves", "keeps"} <= set(re.findall(r'ask[ =]"?(\w+)', text))
    assert text.count("**Predict") >= 20
    for number in ("M01", "M06", "M07", "M08", "M09"):
        assert f"*Misconception* **{number}**" in text


def test_of_the_eight_tensors_the_first_and_the_last_are_no_leaves() -> None:
    lines = shown(MASTER, '"ones(2, requires_grad=True) * 0.1"').splitlines()
    assert ["is_leaf=True" in line for line in lines] == [False, *[True] * 6, False]
    assert ["grad_fn=None" in line for line in lines] == [False, *[True] * 6, False]
    assert shown(MASTER, "all(t.is_leaf == (t.grad_fn is None)") == "True"


def test_one_gradient_is_alive_at_a_time_and_the_counter_can_count() -> None:
    assert shown(MASTER, "print(most_alive(held=None))") == "1"
    assert shown(MASTER, "print(most_alive(held=[]))") == "20"
    assert re.findall(r"\d+ MB", shown(MASTER, "kept_bytes(retain=True)")) == ["4 MB", "84 MB"]


def test_the_gradient_that_w_lacks_is_in_the_leaf_behind_it() -> None:
    first, second = shown(MASTER, "next_functions[0][0].variable\n").splitlines()
    assert first == "requires_grad: True   is_leaf: False   grad: None"
    assert "tensor([2., 4., 6.])" in second


def test_the_optimiser_moves_the_leaf_and_the_loss_stands_still() -> None:
    lines = shown(MASTER, "leaf, w = w, w.double()").splitlines()
    assert len({line.split()[0] for line in lines}) == 1
    assert len({line.partition("leaf=")[2] for line in lines}) == 3
    assert all(line.endswith("w=[0.0, 0.0]") for line in lines)


@pytest.mark.parametrize(
    ("part", "want"),
    [
        ("    (p * p).backward()\n    print(p.grad)", ["4", "8", "12"]),
        ("set_to_none=False)\nprint", ["0"]),
        ('f"{order:22} w=', ["0.64", "0.64", "1.00", "0.44"]),
        ("print(whole.grad, parts.grad)", ["2.5000", "2.5000"]),
    ],
)
def test_the_numbers_are_those_of_the_prose(part: str, want: list[str]) -> None:
    assert re.findall(r"[\d.]*\d", shown(MASTER, part)) == want


def test_eval_leaves_the_gradient_on() -> None:
    has = dict(re.findall(r"^(\w+) .*has grad: (\w+)$", shown(MASTER, "def switched("), re.MULTILINE))
    assert has == {"train": "True", "eval": "True", "no_grad": "False", "frozen": "False"}
