"""A notebook whose JSON is small and unpacks to millions of objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    book["metadata"] = {"odd": "PARTS"}
    (folder / f"{name}.ipynb").write_text(json.dumps(book).replace('"PARTS"', "[" + "[]," * 2_000_000 + "[]]"))
