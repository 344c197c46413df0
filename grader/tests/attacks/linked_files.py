"""Links beside the notebook: to the gradebook, to the course, to the machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
    for number, target in enumerate(("../../../gradebook.db", "../../../source", "/etc/passwd", "..")):
        (folder / f"data{number}").symlink_to(target)
