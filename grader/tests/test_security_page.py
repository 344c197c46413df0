"""What SECURITY.md and the README say in figures is what the code holds to; its other claims are the attacks' tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbjudge.bridge.values.table import SHARED_BYTES
from nbjudge.course.layout import MOST_LETTERS
from nbjudge.grading import clean, outputs
from nbjudge.grading.prove import KINDS
from nbjudge.grading.questions import WORD_SHARE
from nbjudge.model import Limits
from nbjudge.pages import classmates, exported
from nbjudge.sandbox.watch import PERIOD_S
from nbjudge.shown import markup, measures, pictures

HOME = Path(__file__).parents[1]
SAYS = {name: " ".join((HOME / name).read_text(encoding="utf-8").split()) for name in ("SECURITY.md", "README.md")}
NUMBERS = {1: "a", 2: "two", 3: "three", 4: "four", 6: "six", 20: "twenty"}
OFTEN = {2: "twice", 4: "four times"}
FIGURES = [
    f"HTML up to {markup.HTML_CHARS // 1000} kB and {markup.NESTING} levels",
    f"ended after {NUMBERS[int(clean.PIECE_S)]} second of CPU time; {NUMBERS[int(clean.NOTEBOOK_S)]} a notebook, "
    f"{NUMBERS[int(exported.PAGE_S)]} a page",
    f"{NUMBERS[int(classmates.TOKENS_S)]} seconds a submission",
    f"{pictures.PIXELS // 1_000_000} million pixels and {measures.PARTS:,} drawn parts each, "
    f"{OFTEN[pictures.PAGE_PIXELS // pictures.PIXELS]} that a page, and {pictures.PAGE_BYTES >> 20} MB",
    f"{Limits().output_bytes >> 20} MB and {outputs.MESSAGES:,} messages a cell, "
    f"{OFTEN[outputs.CELLS]} that a notebook",
    f"one visible line of {MOST_LETTERS} letters",
    f"a copy behind {classmates.TEXT_CHARS:,} letters of something else",
    f"more than {SHARED_BYTES >> 20} MiB at once",
    f"looked at {OFTEN[round(1 / PERIOD_S)]} a second",
    f"up to {Limits().processes} processes busy",
    f"some {NUMBERS[round(len(KINDS), -1)]} kinds of them",
    f"up to a {'tenth' if WORD_SHARE == 0.1 else WORD_SHARE} of the assignment's",
]


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_that_the_page_names_is_the_code_s(figure: str) -> None:
    assert figure in SAYS["SECURITY.md"]


def test_drawings_have_four_times_the_parts_on_a_page() -> None:
    assert pictures.PAGE_PARTS == 4 * measures.PARTS


def test_points_on_a_word_stop_at_the_tenth_that_the_readme_names() -> None:
    assert "such points stop at a tenth" in SAYS["README.md"]
