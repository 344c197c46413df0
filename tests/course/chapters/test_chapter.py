"""Each chapter: what its executed copy shows without a kernel, how long its cells are, what it asks.

That the outputs are today's is in test_nbval.py, that a learner's copy has none in test_nothing_spoiled.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tools.course.folds import ASKS
from tools.course.masters import cell_ids, read_master

ROOT = Path(__file__).parents[3]
MASTERS = sorted((ROOT / "notebooks").glob("*.py"))
START = "00_start_here"
MAX_WORDS = 90
MAX_CODE_LINES = 25
MAX_WORDS_IN_CODE = 9  # a piece of a message of torch's may stand there
MADE_ON_A_DEVICE = {"tensor", "zeros", "ones", "eye", "full", "arange"}
ELSEWHERE = re.compile(r"numpy|\.to\(|cuda|cpu|pickle")  # a cell about places says where its tensors live

each_chapter = pytest.mark.parametrize("path", MASTERS, ids=lambda path: path.stem)


def notebook(master: Path) -> Path:
    return ROOT / "notebooks" / "executed" / "en" / f"{master.stem}.ipynb"


def chapter(master: Path) -> Any:
    return nbformat.read(notebook(master), as_version=4)


def shown(master: Path, part: str) -> str:
    """What the one cell whose code holds `part` prints, and its value."""
    (cell,) = [cell for cell in chapter(master).cells if cell.cell_type == "code" and part in cell.source]
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "".join(texts).strip()


def pictures(book: Any) -> list[Any]:
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    return [output for output in outputs if "data:image/svg" in output.get("data", {}).get("text/html", "")]


@each_chapter
def test_a_clone_without_a_kernel_shows_every_picture(path: Path) -> None:
    book = chapter(path)
    assert len(pictures(book)) >= (1 if path.stem == START else 5)
    assert "widgets" not in book.metadata
    assert "widget-view" not in notebook(path).read_text(encoding="utf-8")
    for picture in pictures(book):
        assert re.search(r'<img [^>]*alt="[^"]{20,}"', picture.data["text/html"]), "the picture is described in words"
        assert picture.data["text/plain"].strip()


@each_chapter
def test_every_cell_that_asks_has_its_question(path: Path) -> None:
    """Where there is nothing to ask, one sentence says so, beside a picture that shows everything."""
    asking = [cell for cell in chapter(path).cells if cell.cell_type == "code" and ASKS.search(cell.source)]
    bare = [each for cell in asking for each in cell.outputs if "text/plain" in each.get("data", {})]
    assert [each.data["text/plain"] for each in bare if each.data.keys() == {"text/plain"}] == []


@each_chapter
def test_ids_are_the_master_s(path: Path) -> None:
    assert [cell.id for cell in chapter(path).cells] == list(cell_ids(read_master(path)))


@each_chapter
def test_key_cells_are_predicted_first_and_asked_in_the_picture(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(re.findall(r"\*\*Predict", text)) >= (1 if path.stem == START else 5)
    assert len(re.findall(r'(?:--ask |ask=")\w+', text)) >= (1 if path.stem == START else 4)


@each_chapter
def test_cells_are_short(path: Path) -> None:
    too_long = {cell.line: size for cell in read_master(path).cells if (size := length(cell)) > limit(cell)}
    assert not too_long, "the cells on these lines"


def length(cell: Any) -> int:
    """Lines of code, or words of prose; a table is no prose."""
    lines = [line for line in cell.source.splitlines() if cell.cell_type == "code" or not line.startswith("|")]
    return len(lines) if cell.cell_type == "code" else len(re.findall(r"\w+", "\n".join(lines)))


def limit(cell: Any) -> int:
    return MAX_CODE_LINES if cell.cell_type == "code" else MAX_WORDS


@each_chapter
def test_code_holds_no_sentence(path: Path) -> None:
    """What stands in code is the same in every language: names, labels, numbers."""
    told = {cell.line: list(sentences(cell.source)) for cell in read_master(path).cells if cell.cell_type == "code"}
    assert not {line: found for line, found in told.items() if found}


def sentences(source: str) -> Iterator[str]:
    yield from re.findall(r"#\s*[A-Z][a-z]+ .* .* .*", source)
    constants = [node.value for node in ast.walk(tree_of(source)) if isinstance(node, ast.Constant)]
    for text in (value for value in constants if isinstance(value, str)):
        if len(re.findall(r"\b[a-zA-Z]{2,}\b", text)) > MAX_WORDS_IN_CODE and not re.search(r"[=\n(`]", text):
            yield text


@each_chapter
def test_device_comes_from_one_place(path: Path) -> None:
    """A tensor that a chapter makes for torch is made on `device`."""
    elsewhere = {
        cell.line: [ast.unparse(node) for node in ast.walk(tree_of(cell.source)) if makes_a_tensor_on_the_cpu(node)]
        for cell in read_master(path).cells
        if cell.cell_type == "code" and not ELSEWHERE.search(cell.source)
    }
    assert not {line: calls for line, calls in elsewhere.items() if calls}


def makes_a_tensor_on_the_cpu(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("torch."):
        return False
    name = ast.unparse(node.func).removeprefix("torch.")
    return name in MADE_ON_A_DEVICE and "device" not in {keyword.arg for keyword in node.keywords}


def tree_of(source: str) -> ast.Module:
    """The cell as Python, without magics."""
    return ast.parse(re.sub(r"^[%!].*$", "", source, flags=re.MULTILINE))
