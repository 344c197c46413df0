"""The tests say that they are worth a thousand points, or less than none, or not a number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def tests(book: Any) -> list[Any]:
    return [cell for cell in book["cells"] if cell["metadata"].get("nbgrader", {}).get("grade")]


def hand_in(folder: Path, name: str, book: Any) -> None:
    for cell, points in zip(tests(book), (1000, -5, float("nan"), "10", [1e308]) * 2, strict=False):
        cell["metadata"]["nbgrader"]["points"] = points
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
