"""Ten megabytes of metadata in a cell and in the notebook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    book["metadata"]["x"] = "x" * 5_000_000
    book["cells"][0]["metadata"]["nbgrader"] = {"grade_id": "x" * 1_000_000, "points": "9" * 1_000_000}
    book["cells"][-1]["metadata"]["y"] = {str(number): [] for number in range(200_000)}
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
