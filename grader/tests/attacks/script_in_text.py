"""Scripts in Markdown, in raw cells, in formulas and in pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    alert = "<script>window.stolen=1</script><img src=x onerror=window.stolen=1><svg onload=window.stolen=1>"
    links = (
        "[x](javascript:window.stolen=1) $\\href{javascript:window.stolen=1}{x}$ <iframe srcdoc='<script>1</script>'>"
    )
    picture = {"x.svg": {"image/svg+xml": alert, "text/html": alert, "image/png": alert}}
    for number, kind in enumerate(("markdown", "raw", "markdown")):
        cell = {"cell_type": kind, "id": f"s{number}", "metadata": {"format": "text/html"}, "source": alert + links}
        book["cells"].append({**cell, "attachments": picture})
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
