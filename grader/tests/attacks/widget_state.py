"""Saved states of widgets that hold scripts and places to fetch from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    model = {"model_name": "HTMLModel", "state": {"value": "<script>window.stolen=1</script>"}}
    module = {"model_module": "http://example.org/x.js", "model_name": "X", "state": {"_esm": "window.stolen=1"}}
    states = {"state": {"a": model, "b": module}}
    book["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": states}
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
