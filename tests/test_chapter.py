"""Chapter 05 as a learner opens it: its outputs are today's to the letter, its pictures too, and its prose is short."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tools.masters import cell_ids, read_master

ROOT = Path(__file__).parents[1]
NAME = "05_data_versus_detach"
CHAPTER = ROOT / "notebooks" / "en" / f"{NAME}.ipynb"
MASTER = ROOT / "notebooks" / f"{NAME}.py"
MAX_WORDS = 90
MAX_CODE_LINES = 25


def chapter() -> Any:
    return nbformat.read(CHAPTER, as_version=4)


def nbval(path: Path) -> subprocess.CompletedProcess[str]:
    """nbval, strict: every output of every cell is compared, pictures included."""
    command = [
        *(sys.executable, "-m", "pytest", "-q", "--nbval", str(path), "-p", "no:cacheprovider", "-o", "addopts="),
        *("-o", "filterwarnings=default", "--nbval-sanitize-with", str(ROOT / "tests" / "nbval_sanitize.cfg")),
    ]
    environment = os.environ | {"SEEGRAD_LANG": "en", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)


def pictures(book: Any) -> list[Any]:
    return [
        output
        for cell in book.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "data:image/svg" in output.get("data", {}).get("text/html", "")
    ]


def test_nbval_passes_strictly() -> None:
    done = nbval(CHAPTER)
    assert done.returncode == 0, done.stdout[-4000:]


def test_nbval_notices_a_changed_number_a_changed_picture_and_its_changed_words(tmp_path: Path) -> None:
    """On the chapter's beginning, up to its second picture: three cells changed, three cells failed."""
    book = chapter()
    drawn = [number for number, cell in enumerate(book.cells) if "%%see" in cell.source]
    book.cells = book.cells[: drawn[1] + 1]
    printed = next(
        o for cell in book.cells if cell.cell_type == "code" for o in cell.outputs if "True" in o.get("text", "")
    )
    printed.text = printed.text.replace("True", "False", 1)
    first, second = (picture.data for picture in pictures(book))
    first["text/html"] = first["text/html"].replace("v0", "v1", 1)
    second["text/plain"] = second["text/plain"].replace("out@v0", "out@v1", 1)
    assert sum(cell != before for cell, before in zip(book.cells, chapter().cells, strict=False)) == 3
    path = tmp_path / "changed.ipynb"
    nbformat.write(book, path)
    done = nbval(path)
    assert done.returncode == 1, done.stdout[-2000:]
    assert "3 failed" in done.stdout


def test_a_clone_without_a_kernel_shows_every_picture() -> None:
    book = chapter()
    assert len(pictures(book)) >= 8
    assert "widgets" not in book.metadata
    assert "widget-view" not in CHAPTER.read_text()
    for picture in pictures(book):
        assert re.search(r'<img [^>]*alt="[^"]{20,}"', picture.data["text/html"]), "the picture is described in words"
        assert picture.data["text/plain"].strip()


def test_ids_are_the_master_s() -> None:
    assert [cell.id for cell in chapter().cells] == list(cell_ids(read_master(MASTER)))


@pytest.mark.parametrize("cell", read_master(MASTER).cells, ids=lambda cell: f"line{cell.line}")
def test_cells_are_short(cell: Any) -> None:
    if cell.cell_type == "markdown":
        prose = "\n".join(line for line in cell.source.splitlines() if not line.startswith("|"))
        assert len(re.findall(r"\w+", prose)) <= MAX_WORDS
    else:
        assert len(cell.source.splitlines()) <= MAX_CODE_LINES


def test_device_comes_from_one_place() -> None:
    """A tensor that a chapter makes for torch is made on `device`; numpy's section says why it isn't."""
    for cell in chapter().cells:
        if cell.cell_type == "code" and "numpy" not in cell.source:
            made = re.findall(r"torch\.(?:tensor|zeros|ones|eye)\([^#\n]*", cell.source)
            assert all("device=device" in call for call in made), cell.source


def test_predictions_come_before_the_key_cells_and_misconceptions_are_named() -> None:
    text = MASTER.read_text()
    assert {"outcome", "versions", "culprit"} <= set(re.findall(r'ask[ =]"?(\w+)', text))
    assert text.count("**Predict") >= 10
    for number in ("M03", "M04", "M05", "M06", "M07", "M12"):
        assert f"**{number}**" in text


def test_the_silent_case_and_the_loud_case_are_what_the_chapter_says() -> None:
    silent, loud = (
        next(cell for cell in chapter().cells if source in cell.source and "%%see" in cell.source)
        for source in ("c = out.data\n", "c = out.detach()\nc.zero_()")
    )
    assert not [output for output in silent.outputs if output.output_type == "error"]
    (error,) = [output for output in loud.outputs if output.output_type == "error"]
    assert error.ename == "RuntimeError"
    assert "modified by an inplace operation" in error.evalue
