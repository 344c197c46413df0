"""More cells than anybody writes, and lines that are longer than any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    cell = {"cell_type": "code", "metadata": {}, "source": "number = 1", "outputs": [], "execution_count": None}
    book["cells"] += [cell] * 6000
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
