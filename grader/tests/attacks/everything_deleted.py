"""There are no cells at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    book["cells"] = []
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
