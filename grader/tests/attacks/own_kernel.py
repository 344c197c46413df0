"""The notebook asks for a kernel of the student's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    book["metadata"] = {
        "kernelspec": {"name": "own", "language": "bash", "argv": ["/bin/sh", "-c", "touch /tmp/left_behind"]},
        "language_info": {"name": "bash", "nbconvert_exporter": "script", "file_extension": "../../x"},
        "nbgrader": {"extra_credit": 1000},
        "title": "<script>window.stolen=1</script>",
    }
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
