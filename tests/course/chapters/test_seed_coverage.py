"""Every cell of the documents that the course goes back to: run anew, and its verdict checked against torch."""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import pprint
import re
import sys
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch

from tools.evidence import seeds

ROOT = Path(__file__).parents[3]
ROWS = tomllib.loads((ROOT / "tests" / "seed_coverage.toml").read_text(encoding="utf-8"))["row"]
CELLS = tomllib.loads((ROOT / "tests" / "seed_cells.toml").read_text(encoding="utf-8"))
FIRST_CHAPTER = "05_data_versus_detach"


def name_of(row: dict[str, Any]) -> str:
    return f"{row['seed']}-{row['cell']}"


NAMES = [name_of(row) for row in ROWS]


@dataclass(frozen=True)
class Ran:
    """What a cell shows (its prints, then its value or its error), the names it leaves behind, its warnings."""

    shown: str
    names: dict[str, Any]
    warned: str


def run(row: dict[str, Any]) -> Ran:
    names: dict[str, Any] = {"torch": torch}
    shown = io.StringIO()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        exec(row.get("setup", ""), names)  # noqa: S102  # the rows are ours
        with contextlib.redirect_stdout(shown):
            try:
                _run_cell(row["code"].strip(), names)
            except Exception as error:
                print(f"{type(error).__name__}: {error}", file=shown)  # what Jupyter shows last
    return Ran(shown.getvalue().strip(), names, "\n".join(str(warning.message) for warning in told))


@functools.cache
def ran(name: str) -> Ran:
    """A row run once, for all that only look."""
    return run(ROWS[NAMES.index(name)])


def _run_cell(code: str, names: dict[str, Any]) -> None:
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102  # the same
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307  # the same
        sys.stdout.write("" if value is None else pprint.pformat(value, width=79) + "\n")


def version(text: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", text)
    assert found
    return int(found[1]), int(found[2])


@contextlib.contextmanager
def memory_filled_with_nan() -> Iterator[None]:
    """Fresh memory holds NaN, so that who reads what nobody wrote can be seen."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def check_same(row: dict[str, Any]) -> None:
    assert ran(name_of(row)).shown == row["document"].strip()


def check_nondeterministic(row: dict[str, Any]) -> None:
    """Unwritten memory, or another value on each run, or a version that isn't the document's; or what never changes."""
    if "claim" in row:
        check_claim(row)
        return
    with memory_filled_with_nan():
        first = run(row).shown
    assert "nan" in first or first != run(row).shown or first == "False False"


def check_claim(row: dict[str, Any]) -> None:
    assert eval(row["claim"], ran(name_of(row)).names) is True  # noqa: S307  # the rows are ours


def check_cuda(row: dict[str, Any]) -> None:
    """Without CUDA torch says so; with it the tensor says where it lives."""
    shown = ran(name_of(row)).shown
    if torch.cuda.is_available():
        assert "device='cuda:0'" in shown
    else:
        assert re.match(r"(AssertionError|RuntimeError): .*(CUDA|NVIDIA)", shown)


def check_changed(row: dict[str, Any], since: str, *, words_only: bool) -> None:
    """Today's words are there, and not the document's; where only words changed, the rest is the same."""
    shown, document = ran(name_of(row)).shown, row["document"].strip()
    if version(torch.__version__) < version(since):
        assert row["today"] not in shown
        return
    assert row["today"] in shown
    assert row["today"] not in document
    if words_only:
        assert shown.splitlines()[:-1] == document.splitlines()[:-1]
        assert core(shown) == core(document)


def core(text: str) -> list[str]:
    """What doesn't change with torch's words: class of the error, tensor, versions, numbers."""
    return re.findall(r"^\w+Error|\[torch\.\w+ \[[\d, ]*\]\]|version \d+|tensor\([^,]*", text.splitlines()[-1])


CHECKS = {
    "same": check_same,
    "nondeterministic": check_nondeterministic,
    "seed is wrong": check_claim,
    "needs CUDA": check_cuda,
}


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_the_verdict_holds(row: dict[str, Any]) -> None:
    verdict = row["verdict"]
    if verdict in CHECKS:
        CHECKS[verdict](row)
        return
    found = re.fullmatch(r"(wording|behaviour) changed since v(\d+\.\d+)", verdict)
    assert found, f"unknown verdict {verdict!r}"
    check_changed(row, found[2], words_only=found[1] == "wording")


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_what_it_warns_of_is_said(row: dict[str, Any]) -> None:
    warned = ran(name_of(row)).warned
    assert row["warns"] in warned if "warns" in row else not warned


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_the_chapter_takes_it_up(row: dict[str, Any]) -> None:
    cells = cells_of_chapter(row.get("chapter", FIRST_CHAPTER))
    known = "\n".join(f"{name}  {line[:60]}" for name, line in cells.items())
    assert row["chapter_cell"] in cells, f"the chapter has these cells:\n{known}"
    assert row["reason"]


@functools.cache
def cells_of_chapter(name: str) -> dict[str, str]:
    """id → first line of each code cell."""
    book = nbformat.read(ROOT / "notebooks" / "en" / f"{name}.ipynb", as_version=4)
    return {cell.id: cell.source.splitlines()[0] for cell in book.cells if cell.cell_type == "code"}


@pytest.mark.parametrize("seed", CELLS)
def test_every_code_cell_of_the_document_has_a_row(seed: str) -> None:
    rows = [row["cell"] for row in ROWS if row["seed"] == seed and not row["cell"].startswith("text")]
    assert not set(CELLS[seed]) - set(rows), "no chapter takes these up"
    assert not set(rows) - set(CELLS[seed]), "the document has no such cells"


def test_no_cell_has_two_rows() -> None:
    assert len(NAMES) == len(set(NAMES))
    assert sum(map(len, CELLS.values())) > 70


def test_the_page_for_readers_is_what_the_rows_make() -> None:
    assert not list(seeds.complaints())


def test_the_page_says_which_cells_nobody_took_up() -> None:
    row = {**ROWS[0], "seed": "000", "cell": "In[1]", "reason": "a | b"}
    page = seeds.page([row], {"000": ["In[1]", "In[2]"]})
    assert "| In[1] | " in page
    assert "a \\| b" in page
    assert "| In[2] |  | **not taken up yet** |  |  |" in page
