"""Files with the names of the modules that the tests, the kernel and Python itself import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    evil = "raise SystemExit(0)\nequal = allclose = expect = lambda *a, **k: True\n"
    for module in (
        "torch",
        "math",
        "json",
        "sitecustomize",
        "usercustomize",
        "ipykernel_launcher",
        "conftest",
        "nbjudge",
    ):
        (folder / f"{module}.py").write_text(evil)
    for package in ("seegrad", "numpy", "IPython"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text(evil)
    (folder / "x.pth").write_text("import os; os.system('touch /tmp/left_behind')")
    (folder / "nbgrader_config.py").write_text(evil)
    (folder / "gradebook.db").write_bytes(b"SQLite format 3\0")
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
