"""Chapter 06: what its prose says of its outputs is what stands in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.course.chapters.test_chapter import chapter, shown

MASTER = Path(__file__).parents[3] / "notebooks" / "06_embedding_clone.py"


def test_predictions_come_before_the_key_cells_and_misconceptions_are_named() -> None:
    text = MASTER.read_text(encoding="utf-8")
    assert {"outcome", "versions", "culprit", "keeps", "saves"} <= set(re.findall(r'ask[ =]"?(\w+)', text))
    assert len(re.findall(r"\*\*predict", text, re.IGNORECASE)) >= 20
    for number in ("M03", "M04", "M05", "M06", "M07", "M08", "M11", "M12"):
        assert f"**{number}**" in text


def test_the_document_s_program_raises_and_its_clone_doesn_t() -> None:
    raising, cloned = (cell for cell in chapter(MASTER).cells if "n, d, m = 3, 5, 7" in cell.source)
    (error,) = raising.outputs
    assert "[3, 5]] is at version 2; expected version 1" in error.evalue
    assert not cloned.outputs


def test_a_clone_alone_has_bytes_of_its_own_and_a_history() -> None:
    rows = {line.split()[0]: re.findall(r"True|False", line) for line in shown(MASTER, "ways = {").splitlines()}
    assert rows == {
        "weight.clone()": ["False", "False", "True"],
        "weight.detach()": ["True", "True", "False"],
        "weight.detach().clone()": ["False", "False", "False"],
        "weight.data": ["True", "False", "False"],
    }


@pytest.mark.parametrize(
    ("part", "want"),
    [
        ('print("new:"', ["1", "0", "0"]),
        ('make().weight._version, "→", weight._version', ["0", "1"]),
        ('"inference_mode": torch.inference_mode', ["0.6000", "0.8000", "0", "1", "0.6000", "0.8000", "0", "1"]),
        ("def looked_up", ["1.0", "0.032"]),
        ("torch.clone)", ["6.0"] * 6 + ["1.0", "1.0", "3.0", "3.0", "6.0", "6.0"]),
    ],
)
def test_the_numbers_are_those_of_the_prose(part: str, want: list[str]) -> None:
    assert re.findall(r"\d+\.\d+|\d+", shown(MASTER, part)) == want


def test_the_silent_remedy_changes_both_gradients() -> None:
    clone, data = (re.findall(r"\d\.\d*", line) for line in shown(MASTER, "def gradients").splitlines())
    assert (clone, data) == (["4.2000", "7.6000", "2.", "2.", "1."], ["1.8000", "4.4000", "1.", "1.", "0."])
