"""Flags of cells that are lists in lists in lists: a recursion too deep in every question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    for cell in book["cells"]:
        cell["metadata"]["deletable"] = "DEEP"
    (folder / f"{name}.ipynb").write_text(json.dumps(book).replace('"DEEP"', "[" * 700 + "]" * 700))
