"""There are no tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def tests(book: Any) -> list[Any]:
    return [cell for cell in book["cells"] if cell["metadata"].get("nbgrader", {}).get("grade")]


def hand_in(folder: Path, name: str, book: Any) -> None:
    gone = tests(book)
    book["cells"] = [cell for cell in book["cells"] if cell not in gone]
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
