"""Chapter 09: what it says of its own engine and of torch's, beyond what its cells show."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from seegrad.model.derivatives import formulas
from tools.course.masters import read_master

CHAPTER = read_master(Path(__file__).parents[4] / "notebooks" / "09_own_engine.py")
TEXT = "\n".join(cell.source for cell in CHAPTER.cells if cell.cell_type == "markdown")
ENGINE = ("class Value:", "RULES = {", "def graph(", "def plain(")


def test_the_engine_has_about_forty_lines() -> None:
    assert "forty lines" in " ".join(TEXT.split())
    code = [cell.source for cell in CHAPTER.cells if cell.cell_type == "code" and cell.source.startswith(ENGINE)]
    parts = [re.split(r"\n\n+(?=def push|def ordered)", source)[0] for source in code]
    assert len(parts) == len(ENGINE)
    assert 30 <= sum(bool(line.strip()) for part in parts for line in part.splitlines()) <= 45


def test_torch_has_about_as_many_formulas_as_it_says() -> None:
    (said,) = set(re.findall(r"some (\d+) (?:of these lines|formulas)", " ".join(TEXT.split())))
    assert abs(len(formulas()) - int(said)) < 60


def test_a_node_s_number_is_that_of_its_birth_and_accumulate_grad_comes_before_all() -> None:
    x = torch.ones(2, requires_grad=True)
    first = x * 2
    second = first * x
    numbers = [made.grad_fn._sequence_nr() for made in (first, second) if made.grad_fn is not None]
    assert numbers == sorted(numbers)
    assert first.grad_fn is not None
    (accumulate, _slot), *_ = first.grad_fn.next_functions
    assert accumulate is not None
    assert accumulate._sequence_nr() > max(numbers)
