"""A picture in a text that is twelve megabytes of one letter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    picture = {"x.png": {"image/png": "A" * 12_000_000}}
    book["cells"].append(
        {"cell_type": "markdown", "id": "b", "metadata": {}, "source": "![](attachment:x.png)", "attachments": picture}
    )
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
