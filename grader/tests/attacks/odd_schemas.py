"""Versions of metadata that are past, to come, or no version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    for cell, version in zip(book["cells"], (1, 99, "x", None, -1, 2.5) * 3, strict=False):
        if "nbgrader" in cell["metadata"]:
            cell["metadata"]["nbgrader"]["schema_version"] = version
    book["nbformat_minor"] = 10**9
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
