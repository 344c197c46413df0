"""Running notebooks by nbval, strictly: every output of every cell is compared, pictures included."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
RECORDED_ON = "2.13"  # the torch whose words the committed outputs are
LEARNER = ("JPY_SESSION_NAME", "SEEGRAD_PROGRESS")  # whose map of the course a chapter would draw
VERSION_DEPENDENT = "version-dependent"
IGNORED_BY_NBVAL = "nbval-ignore-output"
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
        cell.id = f"{cell.id[:50]}-again"
        if cell.cell_type == "code":
            cell.source = re.sub(r"^%load_ext .*$", "", cell.source, flags=re.MULTILINE)
    made = copy.deepcopy(book)
    made.cells = [*made.cells, *again]
    return made


def as_recorded(book: Any, version: str = torch.__version__) -> Any:
    """The notebook, where cells that depend on the version are run on another torch, and their outputs not compared."""
    if not version.startswith(f"{RECORDED_ON}."):
        for cell in book.cells:
            if VERSION_DEPENDENT in cell.metadata.get("tags", ()):
                cell.metadata["tags"] = [*cell.metadata["tags"], IGNORED_BY_NBVAL]
    return book
