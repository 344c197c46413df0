"""The course map says how much of a chapter is right: of as many predictions and exercises as the chapter has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
import torch

import seegrad
from seegrad.learn.course_map import COURSE, Stop
from seegrad.learn.progress import CHECKED, SHOWN
from seegrad.quiz import ahead

ROOT = Path(__file__).parents[2]
AHEAD = re.compile(r"%%see.*--ahead (\w+).*\n")
ASKS = re.compile(r'%%see.*--ask \w|^seegrad\.show\(.*\bask="', re.MULTILINE)

each_stop = pytest.mark.parametrize("stop", COURSE, ids=lambda stop: stop.name)


def cells(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(ROOT / path, as_version=4).cells if cell.cell_type == "code"]


def questions(source: str) -> Iterator[str]:
    """What a learner is asked by one cell: a prediction, or one before each step."""
    found = AHEAD.match(source)
    if not found:
        yield from [source] if ASKS.search(source) else []
        return
    program = source[found.end() :]
    with seegrad.record(code=("<cell>", 1, program)) as rec:  # a question's id is of its program
        code = compile(program, "<cell>", "exec")
        exec(code, {"torch": torch, "device": torch.device("cpu")})  # noqa: S102  # a chapter's own cell
    yield from (question.id for question in ahead(rec.recording, helped=found[1] == "help"))


@each_stop
def test_the_map_counts_all_that_a_chapter_asks(stop: Stop) -> None:
    asked = [each for source in cells(Path("notebooks/en", f"{stop.name}.ipynb")) for each in questions(source)]
    assert len(set(asked)) == len(asked) == stop.predictions


@each_stop
def test_the_map_counts_all_that_is_checked(stop: Stop) -> None:
    """Chapter 00 has no assignment: its one check shows how an exercise answers."""
    release = Path("release/en", stop.name, f"{stop.name}.ipynb")
    checked = [source for source in cells(release) if CHECKED.search(source)] if stop.name != SHOWN else []
    assert len(checked) == stop.exercises
