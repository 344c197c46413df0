"""A program, a picture, a page in place of the notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    _ = book
    (folder / f"{name}.ipynb").write_bytes(b"\x7fELF\x02\x01<html><script>window.stolen=1</script>")
