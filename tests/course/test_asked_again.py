"""Each chapter from 01 on begins with two questions on earlier ones, whatever its learner has done so far."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

import seegrad
from seegrad.display import again
from seegrad.learn.again import dresses
from seegrad.learn.progress import VARIABLE, Progress, Tried, write_progress
from tools.course.masters import read_master

ROOT = Path(__file__).parents[2]
MASTERS = sorted((ROOT / "notebooks").glob("*.py"))
LATER = [path for path in MASTERS if not path.stem.startswith("00")]
ASKS = re.compile(r'--ask (\w+)|\bask="(\w+)"')
AHEAD = {"next", "saves", "gradient"}
START = "00_start_here"

each_chapter = pytest.mark.parametrize("path", LATER, ids=lambda path: path.stem)


def start(path: Path) -> str:
    """The chapter's second cell of code: the first loads what it needs."""
    return [cell.source for cell in read_master(path).cells if cell.cell_type == "code"][1]


@each_chapter
@pytest.mark.parametrize("wrong", [(), ("keeps-old",)], ids=["new", "wrong"])
def test_a_chapter_begins_with_two_questions(
    path: Path, wrong: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "progress.json"))
    progress = Progress()
    for question in wrong:
        progress = progress.predicted(START, question, Tried(False))
    write_progress(progress, tmp_path / "progress.json")
    pictures: list[Any] = []
    monkeypatch.setattr(again, "display", pictures.append)
    exec(start(path), {"seegrad": seegrad})  # noqa: S102  # the chapter's own cell
    ids = [picture.scene["question"]["id"] for picture in pictures]
    assert len(ids) == 2
    assert tuple(ids[: len(wrong)]) == wrong


@each_chapter
def test_their_answers_stand_nowhere_in_what_a_learner_opens(path: Path) -> None:
    """Between the questions and the next heading nothing is said."""
    for lang in ("en", "zh_CN"):
        cells = nbformat.read(ROOT / "notebooks" / lang / f"{path.stem}.ipynb", as_version=4).cells
        (place,) = [k for k, cell in enumerate(cells) if "ask_again(" in cell.source]
        assert not cells[place].outputs
        assert cells[place + 1].source.startswith("## 1 ")


@pytest.mark.parametrize("path", MASTERS, ids=lambda path: path.stem)
def test_every_kind_of_question_of_a_chapter_has_other_dresses(path: Path) -> None:
    """Two at least, so that one which was answered wrongly can come back in another."""
    text = path.read_text(encoding="utf-8")
    asked = {one or other for one, other in ASKS.findall(text)} | (AHEAD if "%%see --ahead" in text else set())
    ours = [dress.kind for dress in dresses() if dress.chapter == path.stem]
    assert asked == set(ours)
    assert all(ours.count(kind) > 1 for kind in asked)
