"""A folder that is named like a notebook: where it was to be written, another thing stood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
    (folder / "more.ipynb").mkdir()
    (folder / "more.ipynb" / "a.txt").write_text("a")
