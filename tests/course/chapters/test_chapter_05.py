"""Chapter 05: the two cases that it turns on, and what it asks."""

from __future__ import annotations

import re
from pathlib import Path

from tests.course.chapters.test_chapter import chapter

MASTER = Path(__file__).parents[3] / "notebooks" / "05_data_versus_detach.py"


def test_predictions_come_before_the_key_cells_and_misconceptions_are_named() -> None:
    text = MASTER.read_text(encoding="utf-8")
    assert {"outcome", "versions", "culprit"} <= set(re.findall(r'ask[ =]"?(\w+)', text))
    assert text.count("**Predict") >= 10
    for number in ("M03", "M04", "M05", "M06", "M07", "M12"):
        assert f"**{number}**" in text


def test_the_silent_case_and_the_loud_case_are_what_the_chapter_says() -> None:
    silent, loud = (
        next(cell for cell in chapter(MASTER).cells if source in cell.source and line in cell.source)
        for line, source in (("%%see --ask", "c = out.data\n"), ("%%see\n", "c = out.detach()\nc.zero_()"))
    )
    assert not [output for output in silent.outputs if output.output_type == "error"]
    (error,) = [output for output in loud.outputs if output.output_type == "error"]
    assert error.ename == "RuntimeError"
    assert "modified by an inplace operation" in error.evalue
