"""A notebook of format 3 whose worksheets hold forged tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    cells = [{**cell, "input": cell["source"], "language": "python"} for cell in book["cells"]]
    for cell in cells:
        cell["source"] = "number = 1"
        cell["prompt_number"] = "<script>window.stolen=1</script>"
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": "x"}, "worksheets": [{"cells": cells}] * 2}
    (folder / f"{name}.ipynb").write_text(json.dumps(old))
