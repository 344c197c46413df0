"""Metadata with numbers that JSON doesn't know, and nested as deep as it goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    text = json.dumps(book)
    deep = '{"a":' * 2000 + "1" + "}" * 2000
    text = text.replace('"metadata": {', f'"metadata": {{"x": NaN, "y": -Infinity, "z": 1e999, "deep": {deep}, ', 1)
    (folder / f"{name}.ipynb").write_text(text)
