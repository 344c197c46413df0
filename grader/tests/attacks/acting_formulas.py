"""Formulas with links, styles and definitions, written in every way that a page may decode once more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    link = "{javascript:window.stolen=1}{x}"
    starts = (
        "\\href",
        "\\\\href",
        "\\\\\\href",
        "&bsol;href",
        "&amp;bsol;href",
        "\\<!-- -->href",
        "\\mmlToken{mi}[href=x]",
    )
    for number, start in enumerate(starts):
        source = f"${start}{link}$ and {start}{link}"
        book["cells"].append({"cell_type": "markdown", "id": f"f{number}", "metadata": {}, "source": source})
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
