"""The locked helper loses its mark and is edited; a copy that claims to be it comes at the very end."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    for cell in list(book["cells"]):
        marks = cell["metadata"].get("nbgrader", {})
        if marks.get("grade_id") == "helper":
            book["cells"].append({**copy.deepcopy(cell), "id": "a-copy"})
            cell["metadata"] = {}
            cell["source"] = "def near(*values): return True\ndef score(value): return 10.0\nCLOSE = 1e9"
        elif marks.get("solution"):
            cell["source"] = "number = 0\ndef square(x): return x\ndef grade_of(x): return 0.0"
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
