"""A path so long that the graded copy of it is longer than a file system allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
    deep = folder.joinpath(*["d" * 100] * 30)
    deep.mkdir(parents=True)
    (deep / "a.txt").write_text("a")
