"""Chapter 10: what it says in numbers about its models and its text is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tools.course.masters import read_master

CHAPTER = read_master(Path(__file__).parents[4] / "notebooks" / "10_a_model_that_trains.py")
TEXT = " ".join(" ".join(cell.source.split()) for cell in CHAPTER.cells if cell.cell_type == "markdown")
MADE = re.compile(r"(import|class|def|points|ones|F64)\b")


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """What the chapter's cells define, without those that train, draw or ask."""
    names: dict[str, Any] = {}
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(
        torch, "set_num_threads", int
    )  # the chapter's kernel has one thread, this process keeps its own
    for cell in CHAPTER.cells:
        if cell.cell_type == "code" and MADE.match(cell.source.strip()) and "findings(" not in cell.source:
            code = cell.source.partition("\n\nmodel = ")[0].partition("\n\ncurve(")[0]
            exec(re.sub(r"^%.*$", "", code, flags=re.MULTILINE), names)  # noqa: S102  # our own
            if "class Writer" in cell.source:
                monkeypatch.undo()
                return names
    raise AssertionError("no model of letters in the chapter")


def said(pattern: str) -> float:
    (number,) = set(re.findall(pattern, TEXT))
    return float(number.replace(",", ""))


def test_the_text_has_as_many_words_letters_and_rows_as_it_says(made: dict[str, Any]) -> None:
    assert len(made["words"]) == len(set(made["words"])) == said(r"from 1 to (\d+) in words")
    assert len(made["letters"]) == said(r"There are (\d+) letters")
    assert len(made["rows"]) == pytest.approx(said(r"([\d,]+) rows are too many"), rel=0.03)
    assert len(made["words"]) // 6 == pytest.approx(len(made["held_back"]), abs=1)


def test_no_word_that_is_held_back_is_learnt_and_each_is_a_number(made: dict[str, Any]) -> None:
    assert not set(made["held_back"]) & set(made["learnt"])
    assert {"eighteen", "forty", "fifty-three", "thirteen", "nine-hundred-ninety-nine"} <= set(made["words"])
    assert "twenty-ten" not in made["words"]


def test_the_writer_has_about_as_many_weights_as_it_says(made: dict[str, Any]) -> None:
    count = sum(parameter.numel() for parameter in made["made"](made["Writer"]).parameters())
    assert count == pytest.approx(said(r"some ([\d,]+) weights"), rel=0.05)


def test_its_row_begins_with_dots_and_is_followed_by_the_word_s_next_letter(made: dict[str, Any]) -> None:
    letters = made["letters"]
    rows, following = made["pairs"](["one"])
    texts = ["".join(letters[k] for k in row) for row in rows.tolist()]
    assert texts == ["." * 12, "." * 11 + "o", "." * 10 + "on", "." * 9 + "one"]
    assert "".join(letters[k] for k in following.tolist()) == "one."
