"""How long a chapter takes, what of it is optional, and that nothing needs what is.

A reader needs a minute for 55 words, a minute for 20 lines of code, 45 seconds for a prediction, 2 minutes where
something is to be changed or repaired. These four figures were fitted to the minutes that eight chapters took a
beginner who had nothing else: they meet each of the eight within 10 minutes, and give 591 where all together took 595.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).parents[3]
CHAPTERS = sorted((ROOT / "notebooks" / "en").glob("*.ipynb"))
MOST_MINUTES, OFF = 60, 5
MAGIC = re.compile(r"^%%?\w+.*$", re.MULTILINE)
HEADING = re.compile(r"(#{2,}) (.*)")
OPTIONAL = re.compile(r"#{2,} (?:\d+ · )?Optional: ")
LEARNT = {"seegrad"}

each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def parted(path: Path) -> Iterator[tuple[Any, bool]]:
    """Each cell, and whether it is optional: a heading says so, for all that is below it."""
    depth = 0
    for cell in nbformat.read(path, as_version=4).cells:
        if heading := HEADING.match(cell.source if cell.cell_type == "markdown" else ""):
            if depth and len(heading[1]) <= depth:
                depth = 0
            if not depth and OPTIONAL.match(cell.source):
                depth = len(heading[1])
        yield cell, bool(depth)


def needed(path: Path) -> list[Any]:
    return [cell for cell, optional in parted(path) if not optional]


def reckoned(cells: list[Any]) -> float:
    """Minutes for these cells."""
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    lines = [line for cell in cells if cell.cell_type == "code" for line in cell.source.splitlines() if line.strip()]
    predicted, changed = (len(re.findall(word, prose)) for word in (r"\*\*Predict", r"\*\*(?:Change|Repair)"))
    return len(re.findall(r"\w+", prose)) / 55 + len(lines) / 20 + 0.75 * predicted + 2 * changed


def said(text: str) -> int:
    """As the first cell says."""
    (number,) = re.findall(r"[Aa]bout (\d+) minutes", text)
    return int(number)


def master(folder: str) -> dict[str, int]:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / folder).glob("*.py")}
    return {name: said(text.split("\n# %%")[0]) for name, text in texts.items()}


@each_chapter
def test_a_chapter_takes_an_hour_at_most_and_says_how_long(path: Path) -> None:
    first, cells = nbformat.read(path, as_version=4).cells[0].source, needed(path)
    assert said(first) <= MOST_MINUTES
    assert round(reckoned(cells)) <= MOST_MINUTES
    assert abs(reckoned(cells) - said(first)) <= OFF
    assert ("optional" in first) == any(optional for _, optional in parted(path))


def test_minutes_add_up() -> None:
    chapters, assignments = master("notebooks"), master("source")
    for name, own in assignments.items():
        last = (ROOT / "notebooks" / f"{name}.py").read_text(encoding="utf-8").split("# %% [markdown]")[-1]
        assert f"about {own} minutes" in " ".join(last.split())
    start = " ".join((ROOT / "notebooks" / "00_start_here.py").read_text(encoding="utf-8").replace("#", "").split())
    assert f"{min(chapters.values())} to {max(chapters.values())} minutes" in start
    assert f"another {min(assignments.values())} to {max(assignments.values())} minutes" in start
    (hours,) = re.findall(r"about (\d+) hours for all of it", start)
    assert abs(sum([*chapters.values(), *assignments.values()]) / 60 - int(hours)) < 1


def unmade(cells: list[Any]) -> set[str]:
    """Names that the cells read and that none of them, up to there, has made."""
    made, missing = set(dir(builtins)) | LEARNT, set()
    for cell in cells:
        if cell.cell_type == "code":
            tree = ast.parse(MAGIC.sub("", cell.source))
            made |= {name for node in ast.walk(tree) for name in binds(node)} | recordings(cell.source)
            read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
            missing |= read - made
    return missing


def binds(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias(name=name, asname=other):
            yield other or name.partition(".")[0]
        case ast.ExceptHandler(name=str(name)):
            yield name


def recordings(source: str) -> set[str]:
    return set(re.findall(r"^%%see.* --as (\w+)", source, re.MULTILINE))


@each_chapter
def test_what_is_optional_can_be_left_out(path: Path) -> None:
    everything = [cell for cell, _ in parted(path)]
    assert unmade(needed(path)) == unmade(everything)


def test_a_name_of_an_optional_part_is_found() -> None:
    code, prose = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    assert unmade([code("a = 1"), prose("b"), code("%%see --as rec\nfor c in [a]: print(c, d)"), code("rec, e")]) == {
        "d",
        "e",
    }
