"""A pipe that never ends and a socket lie beside the notebook."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
    os.mkfifo(folder / "pipe.csv")
    os.mkfifo(folder / "other.ipynb")
