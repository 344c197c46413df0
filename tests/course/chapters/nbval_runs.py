"""Running notebooks by nbval, strictly: every output of every cell is compared, pictures included."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import torch

ROOT = Path(__file__).parents[3]
RECORDED_ON = "2.13"  # the torch whose words the committed outputs are
LEARNER = ("JPY_SESSION_NAME", "SEEGRAD_PROGRESS")  # whose map of the course a chapter would draw
VERSION_DEPENDENT = "version-dependent"
IGNORED_BY_NBVAL = "nbval-ignore-output"
AGAIN = "-again"
LESS_SEEN = "ignore:seegrad sees less:RuntimeWarning"
"""For PYTHONWARNINGS: what importing seegrad says on torch 2.9 is no output of a chapter and of no script."""

SANITIZE = ROOT / "tests" / "nbval_sanitize.cfg"


def nbval(
    *paths: Path, lang: str = "en", options: tuple[str, ...] = ("--nbval",), sanitize: Path = SANITIZE
) -> subprocess.CompletedProcess[str]:
    """nbval on these notebooks, without a GPU unless the options name a kernel."""
    command = [
        *(sys.executable, "-m", "pytest", "-q", *options, *map(str, paths), "-p", "no:cacheprovider", "-o", "addopts="),
        *("-o", "filterwarnings=default", "--nbval-sanitize-with", str(sanitize)),
    ]
    environment = {name: value for name, value in os.environ.items() if name not in LEARNER} | {
        "SEEGRAD_LANG": lang,
        "PYTHONWARNINGS": LESS_SEEN,
    }
    if "--nbval-kernel-name" not in options:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=580)


def twice(book: Any) -> Any:
    """The notebook, and all its cells once more in the same kernel. An extension is loaded once."""
    again = copy.deepcopy(book.cells)
    for cell in again:
        cell.id = f"{cell.id[:50]}{AGAIN}"
        if cell.cell_type == "code":
            cell.source = re.sub(r"^%load_ext .*$", "", cell.source, flags=re.MULTILINE)
    made = copy.deepcopy(book)
    made.cells = [*made.cells, *again]
    return made


def as_recorded(book: Any, version: str = torch.__version__, checks: dict[str, str] | None = None) -> Any:
    """The notebook, where cells that depend on the version are followed by what has to hold after them on any torch.

    On another torch than the recorded one their outputs aren't compared.
    """
    known, made = version_checks() if checks is None else checks, copy.deepcopy(book)
    made.cells = []
    for cell in copy.deepcopy(book.cells):
        made.cells.append(cell)
        if VERSION_DEPENDENT in cell.metadata.get("tags", ()):
            if not version.startswith(f"{RECORDED_ON}."):
                cell.metadata["tags"] = [*cell.metadata["tags"], IGNORED_BY_NBVAL]
            check = known[cell.id.removesuffix(AGAIN)]
            made.cells.append(nbformat.v4.new_code_cell(check, id=f"{cell.id}-check"))
    return made


def version_checks() -> dict[str, str]:
    """Cell id → the code of tests/version_checks.toml that has to run after it."""
    table = tomllib.loads((ROOT / "tests" / "version_checks.toml").read_text(encoding="utf-8"))
    return {row["cell"]: f"{table['common']}\n{row['holds']}" for row in table["check"]}
