"""What today's torch makes of the five documents' code, as a page: `python -m tools.evidence.seeds [--check]`.

::

    tests/seed_cells.toml, tests/seed_coverage.toml ─▶ docs/seed_coverage.md

The rows are run by tests/course/chapters/test_seed_coverage.py; here they are only set in a table.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.words.marks import markdown_table

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path("docs", "seed_coverage.md")
FIRST_CHAPTER = "05_data_versus_detach"
DOCUMENTS = {
    "000": "a notebook of 2023 on in-place operations, torch 2.0.1",
    "001": "a notebook on autograd, torch 1.5 to 1.9",
    "002": "a notebook on the same, torch 1.10 to 2.8, on Windows, run out of order",
    "003": "an article as a notebook, torch 1.6 to 1.7",
    "004": "two articles put together, torch 1.4 or older, their line breaks lost; cells are known by their line",
}
HEAD = """# What the old documents say, and your torch

The course goes back to five documents that learners still find on the web. Each of their code cells was run on today's
torch, and a chapter takes it up. `make test` runs every row anew: `tests/seed_coverage.toml` has the code, what the
document shows for it, and what to expect instead. Below a document's cells stand claims of its text, each with the
expression that refutes it.

- **same**: today's torch shows the same, to the letter.
- **nondeterministic**: unwritten memory, unseeded numbers, addresses, versions: another result on each run.
- **wording changed**: the same fact in other words since that version.
- **behaviour changed**: something else happens since that version.
- **seed is wrong**: the document claims what an experiment refutes.
- **needs CUDA**: runs only where there is a GPU.
"""


def rows_of(root: Path = ROOT) -> list[Mapping[str, Any]]:
    """Every row, as it stands in the file."""
    text = (root / "tests" / "seed_coverage.toml").read_text(encoding="utf-8")
    rows: list[Mapping[str, Any]] = tomllib.loads(text)["row"]
    return rows


def cells_of(root: Path = ROOT) -> dict[str, list[str]]:
    """The code cells of each document, in its order."""
    return tomllib.loads((root / "tests" / "seed_cells.toml").read_text(encoding="utf-8"))


def page(rows: Sequence[Mapping[str, Any]], cells: Mapping[str, Sequence[str]]) -> str:
    """The whole page as Markdown."""
    counts = Counter(re.sub(r" since .*", "", row["verdict"]) for row in rows)
    told = ", ".join(f"{count} × {verdict}" for verdict, count in counts.most_common())
    parts = [HEAD, f"Rows: {len(rows)} ({told}).\n"]
    for seed, known in cells.items():
        own = {row["cell"]: row for row in rows if row["seed"] == seed}
        names = [*known, *(name for name in own if name not in known)]
        table = markdown_table(("cell", "its code", "today", "why", "chapter"), [_line(name, own) for name in names])
        parts.append(f"## {seed}: {DOCUMENTS[seed]}\n\n{table}\n")
    return "\n".join(parts)


def _line(name: str, rows: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """One row of the table; a cell that no chapter has taken up yet says so."""
    if name not in rows:
        return (_escaped(name), "", "**not taken up yet**", "", "")
    row = rows[name]
    chapter = row.get("chapter", FIRST_CHAPTER)
    link = f"[{chapter[:2]}](../notebooks/en/{chapter}.ipynb)"
    code = _code(row["claim"] if name.startswith("text") and "claim" in row else row["code"])
    return (_escaped(name.removeprefix("text ")), code, row["verdict"], _escaped(row["reason"]), link)


def _code(code: str) -> str:
    """The first line that says something, short enough for a table."""
    lines = [line for line in code.strip().splitlines() if line.strip() and not line.startswith(("import ", "from "))]
    first = (lines or [""])[0].replace("|", "\\|")
    return f"`{first[:47]}…`" if len(first) > 48 else f"`{first}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").strip()


def complaints(root: Path = ROOT) -> Iterator[str]:
    """What is to be mended."""
    path = root / PAGE
    if not path.exists() or path.read_text(encoding="utf-8") != page(rows_of(root), cells_of(root)):
        yield f"{PAGE} isn't what the rows make. Run: python -m tools.evidence.seeds"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(prog="python -m tools.evidence.seeds", description=(__doc__ or "").split(":")[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    if not parser.parse_args(argv).check:
        (ROOT / PAGE).write_text(page(rows_of(), cells_of()), encoding="utf-8")
        print(f"wrote {PAGE}")
    found = list(complaints())
    for complaint in found:
        print(complaint, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
