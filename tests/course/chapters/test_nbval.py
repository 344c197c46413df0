"""The chapters run by nbval: today's outputs are those of the committed executed copies, to the letter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest
from nbval.plugin import get_sanitize_patterns

from nbjudge_tests.session import first_of
from tests.course.chapters.nbval_runs import (
    IGNORED_BY_NBVAL,
    ROOT,
    SANITIZE,
    VERSION_DEPENDENT,
    as_recorded,
    nbval,
    twice,
    version_checks,
)

FIRST = "05_data_versus_detach"
EXECUTED = ROOT / "notebooks" / "executed"
CHAPTERS = sorted((EXECUTED / "en").glob("*.ipynb"))
CHINESE = sorted((EXECUTED / "zh_CN").glob("*.ipynb"))
SAID = EXECUTED / "zh_CN" / f"{FIRST}.ipynb"
SOURCES = sorted((ROOT / "source").glob("*/*.ipynb"))


def copy_of(book: Any, folder: Path, name: str) -> Path:
    path = folder / f"{name}.ipynb"
    nbformat.write(book, path)
    return path


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Of each chapter the cells that failed: one nbval for all, with a kernel for each."""
    folder = tmp_path_factory.mktemp("chapters")
    books = [copy_of(as_recorded(nbformat.read(path, as_version=4)), folder, path.stem) for path in CHAPTERS]
    done = nbval(*books, options=("--nbval", f"--junitxml={folder / 'cells.xml'}"))
    cells = [*ElementTree.parse(folder / "cells.xml").iter("testcase")]  # noqa: S314 - pytest has just written it
    assert len(cells) == sum(
        cell.cell_type == "code" for book in books for cell in nbformat.read(book, as_version=4).cells
    )
    told: dict[str, list[str]] = {path.stem: [] for path in CHAPTERS}
    for cell in cells:
        if [*cell]:  # a failure, an error
            told[str(cell.get("classname")).rpartition(".")[2]].append("".join(cell.itertext())[:2000])
    assert any(told.values()) == bool(done.returncode), done.stdout[-4000:]
    return told


@pytest.mark.parametrize("name", [path.stem for path in CHAPTERS])
def test_a_chapter_runs_as_recorded_from_a_fresh_kernel(name: str, failed: dict[str, list[str]]) -> None:
    assert not failed[name]


@pytest.mark.parametrize("path", first_of(CHAPTERS), ids=lambda path: path.stem)
def test_a_chapter_runs_again_without_a_restart(path: Path, tmp_path: Path) -> None:
    book = as_recorded(twice(nbformat.read(path, as_version=4)))
    done = nbval(copy_of(book, tmp_path, path.stem))
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize(
    "path", first_of([SAID, *(path for path in CHINESE if path != SAID)]), ids=lambda path: path.stem
)
def test_a_chapter_in_chinese_runs_as_recorded(path: Path, tmp_path: Path) -> None:
    done = nbval(copy_of(as_recorded(nbformat.read(path, as_version=4)), tmp_path, path.stem), lang="zh_CN")
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.whole  # test_assignment runs each of them in one kernel too
def test_every_cell_of_the_instructor_s_sources_passes() -> None:
    """Answers and hidden tests, all in one kernel a notebook. They have no outputs to compare."""
    done = nbval(*SOURCES, options=("--nbval-lax",))
    assert done.returncode == 0, done.stdout[-4000:]
    cells = [cell for path in SOURCES for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert f"{len(cells)} passed" in done.stdout


def test_nbval_notices_a_changed_number_a_changed_picture_and_its_changed_words(tmp_path: Path) -> None:
    """On a chapter's beginning, up to its second picture: three cells changed, three cells failed."""
    book, before = (nbformat.read(EXECUTED / "en" / f"{FIRST}.ipynb", as_version=4) for _ in range(2))
    drawn = [number for number, cell in enumerate(book.cells) if "%%see" in cell.source]
    book.cells = book.cells[: drawn[1] + 1]
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    printed = next(output for output in outputs if "True" in output.get("text", ""))
    printed.text = printed.text.replace("True", "False", 1)
    pictures = [output.data for number in drawn[:2] for output in book.cells[number].outputs]
    first, second = (data for data in pictures if "data:image/svg" in data.get("text/html", ""))
    first["text/html"] = first["text/html"].replace("v0", "v1", 1)
    second["text/plain"] = second["text/plain"].replace("out", "oat", 1)
    assert sum(cell != other for cell, other in zip(book.cells, before.cells, strict=False)) == 3
    done = nbval(copy_of(book, tmp_path, "changed"))
    assert done.returncode == 1, done.stdout[-2000:]
    assert "3 failed" in done.stdout


def two_cells() -> Any:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1"), nbformat.v4.new_code_cell("kept = 2; kept")])
    book.cells[0].execution_count = 1
    book.cells[0].outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "1"}, execution_count=1)]
    book.cells[1].id, book.cells[1].metadata["tags"] = "second", [VERSION_DEPENDENT]
    return book


def test_on_another_torch_only_tagged_cells_may_say_something_else() -> None:
    book, checks = two_cells(), {"second": "assert True"}
    tags = [cell.metadata.get("tags") for cell in as_recorded(book, "2.13.1+cpu", checks).cells]
    assert tags == [None, [VERSION_DEPENDENT], None]
    tags = [cell.metadata.get("tags") for cell in as_recorded(book, "2.9.1+cpu", checks).cells]
    assert tags == [None, [VERSION_DEPENDENT, IGNORED_BY_NBVAL], None]


def test_each_of_them_has_a_check_of_its_own() -> None:
    books = [nbformat.read(path, as_version=4) for path in (*CHAPTERS, *CHINESE)]
    tagged = {cell.id for book in books for cell in book.cells if VERSION_DEPENDENT in cell.metadata.get("tags", ())}
    assert tagged == set(version_checks())


@pytest.mark.parametrize(
    ("check", "closing"), [("assert kept == 2", "3 passed"), ("assert kept == 3", "1 failed, 2 passed")]
)
def test_the_check_runs_after_its_cell(check: str, closing: str, tmp_path: Path) -> None:
    done = nbval(copy_of(as_recorded(two_cells(), "2.9.1+cpu", {"second": check}), tmp_path, "checked"))
    assert done.stdout.strip().splitlines()[-1].startswith(closing), done.stdout[-2000:]


@pytest.mark.parametrize(
    ("gpu", "cpu", "alike"),
    [
        ("tensor([1., 2.], device='cuda:0')", "tensor([1., 2.])", True),
        ("tensor([1.],\n       device='cuda:0', grad_fn=<ExpBackward0>)", "tensor([1.], grad_fn=<ExpBackward0>)", True),
        ("[torch.cuda.FloatTensor [3]], which is", "[torch.FloatTensor [3]], which is", True),
        ("tensor(2.,%20device=%27cuda:0%27)%3C", "tensor(2.)%3C", True),
        ("tensor(2., device=&#x27;cuda:0&#x27;, x", "tensor(2., x", True),
        ("tensor([1., 3.], device='cuda:0')", "tensor([1., 2.])", False),
        ("on cuda:0 and cpu", "on cpu and cpu", False),
    ],
)
def test_of_a_gpu_only_its_name_in_a_tensor_is_passed_over(gpu: str, cpu: str, alike: bool) -> None:
    """As nbval reads and applies the file: to what came, and to what was to come."""
    for regex, replacement in get_sanitize_patterns((ROOT / "tests" / "gpu" / "sanitize.cfg").read_text("utf-8")):
        gpu, cpu = re.sub(regex, replacement, gpu), re.sub(regex, replacement, cpu)
    assert (gpu == cpu) is alike


def test_each_sanitized_thing_says_why() -> None:
    text = SANITIZE.read_text(encoding="utf-8")
    assert len(get_sanitize_patterns(text)) == text.count("regex:")
    assert text.startswith("# ")
    assert len(re.findall(r"^\[", text, re.MULTILINE)) <= 6, "the rest is compared to the letter"
