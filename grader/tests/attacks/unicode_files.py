"""Names of files with marks of direction, of other alphabets, with new lines, and as long as they can be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
    for odd in ("\u202egpj.exe", "\u0131.py", "a\nb", "caf\u00e9", "cafe\u0301", "x" * 250, "-rf", "..\\x", "con", " "):
        (folder / odd).write_text("x")
    (folder / f"{name.upper()}.IPYNB").write_text("{}")
