"""Text that isn't text: halves of characters, zeros, marks of order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    book["cells"][0]["source"] = "x = '\ud800'"
    book["metadata"]["\udfff"] = "\x00"
    (folder / f"{name}.ipynb").write_bytes(b"\xef\xbb\xbf" + json.dumps(book).encode())
