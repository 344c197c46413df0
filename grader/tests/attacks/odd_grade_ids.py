"""Keys of cells that are lists, numbers, paths, other alphabets and very long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    for cell, key in zip(
        book["cells"], (["number"], 5, "../../number", "nu\u043cber", "x" * 100_000, None) * 3, strict=False
    ):
        cell["metadata"]["nbgrader"] = {
            "grade_id": key,
            "grade": True,
            "solution": True,
            "points": 25,
            "schema_version": 3,
        }
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
