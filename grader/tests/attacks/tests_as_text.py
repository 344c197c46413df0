"""The tests have become text, and the text has become code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    for cell in book["cells"]:
        cell["cell_type"] = "markdown" if cell["cell_type"] == "code" else "code"
        cell["outputs"], cell["execution_count"] = [], None
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
