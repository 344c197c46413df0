"""Written answers and code that keep a page's parsers busy for minutes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    texts = ("\\begin{a}" * 20_000, ">" * 90_000, "[a](" * 22_000, "a**b*c_d" * 12_000, "```\n" + "(" * 90_000)
    for number, text in enumerate(texts):
        book["cells"].append({"cell_type": "markdown", "id": f"b{number}", "metadata": {}, "source": text})
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
