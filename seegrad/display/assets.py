"""The front end's built files, as they are shipped in the package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

STATIC = Path(__file__).parents[1] / "static"


@cache
def asset(name: str) -> str:
    """The text of one built file, such as `svg.css`. Raises: FileNotFoundError when the front end wasn't built."""
    return (STATIC / name).read_text(encoding="utf-8")
