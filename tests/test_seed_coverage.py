"""Every cell of the documents that chapter 05 goes back to: run anew, and its verdict checked against torch."""

from __future__ import annotations

import ast
import contextlib
import io
import pprint
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch

ROOT = Path(__file__).parents[1]
CHAPTER = ROOT / "notebooks" / "en" / "05_data_versus_detach.ipynb"
ROWS = tomllib.loads((ROOT / "tests" / "seed_coverage.toml").read_text(encoding="utf-8"))["row"]
RELEVANT = {  # the code cells of each document that speak of .data, .detach, or of what the chapter shows with them
    "000": {"In[9]", "In[10]", "In[11]", "In[12]", "In[13]", "In[14]", "In[22]", "In[23]"},
    "001": {"In[31]", "In[55]", "In[64]", "In[69]"},
    "002": {f"In[{number}]" for number in (20, 21, 22, 23, 24, 25, 57, 61, 62, 63, 64, 68, 69, 70, 72)},
}
NAMES = [f"{row['seed']}-{row['cell']}" for row in ROWS]


def run(row: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What a cell shows: its prints, then its value or its error; and the names it leaves behind."""
    names: dict[str, Any] = {"torch": torch}
    exec(row.get("setup", ""), names)  # noqa: S102  # the rows are ours
    tree = ast.parse(row["code"].strip())
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        try:
            exec(compile(tree, row["cell"], "exec"), names)  # noqa: S102  # the same
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), row["cell"], "eval"), names)  # noqa: S307  # the same
                shown.write("" if value is None else pprint.pformat(value, width=79) + "\n")
        except Exception as error:
            shown.write(f"{type(error).__name__}: {error}\n")
    return shown.getvalue().strip(), names


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


def check_nondeterministic(row: dict[str, Any]) -> None:
    """Unwritten memory, or another value on each run, or a version that isn't the document's."""
    with memory_filled_with_nan():
        first, _ = run(row)
    second, _ = run(row)
    assert "nan" in first or first != second or first == "False False"


def check_wrong(row: dict[str, Any]) -> None:
    _, names = run(row)
    assert eval(row["claim"], names) is True  # noqa: S307  # the rows are ours


def check_wording(row: dict[str, Any], since: str) -> None:
    """Other words for the same: the same lines before, the same kind of error, the same tensor and versions."""
    shown, _ = run(row)
    document = row["document"].strip()
    if version(torch.__version__) < version(since):
        assert row["today"] not in shown
        return
    assert row["today"] in shown
    assert row["today"] not in document
    assert shown.splitlines()[:-1] == document.splitlines()[:-1]
    assert core(shown) == core(document)


def core(text: str) -> list[str]:
    """What doesn't change with torch's words: class of the error, tensor, versions, numbers."""
    return re.findall(r"^\w+Error|\[torch\.\w+ \[[\d, ]*\]\]|version \d+|tensor\([^,]*", text.splitlines()[-1])


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_the_verdict_holds(row: dict[str, Any]) -> None:
    verdict = row["verdict"]
    if verdict == "same":
        assert run(row)[0] == row["document"].strip()
    elif verdict == "nondeterministic":
        check_nondeterministic(row)
    elif verdict == "seed is wrong":
        check_wrong(row)
    else:
        found = re.fullmatch(r"wording changed since v(\d+\.\d+)", verdict)
        assert found, f"unknown verdict {verdict!r}"
        check_wording(row, found[1])


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_the_chapter_takes_it_up(row: dict[str, Any]) -> None:
    cells = {cell.id: cell for cell in nbformat.read(CHAPTER, as_version=4).cells if cell.cell_type == "code"}
    known = "\n".join(f"{name}  {cell.source.splitlines()[0][:60]}" for name, cell in cells.items())
    assert row["chapter_cell"] in cells, f"the chapter has these cells:\n{known}"
    assert row["reason"]


def test_every_relevant_cell_has_a_row() -> None:
    found: dict[str, set[str]] = {}
    for row in ROWS:
        if not row["cell"].startswith("text"):
            found.setdefault(row["seed"], set()).add(row["cell"])
    assert found == RELEVANT
    assert len(NAMES) == len(set(NAMES))
