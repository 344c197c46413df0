"""Results by content hash: what was once judged is judged once, and a killed run goes on where it stopped."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from nbjudge.course.storage import sweep_drafts, write_whole, writing
from nbjudge.model import Result


class Kept:
    """The results of a course, one file each, named by key. A result is on disk before its grades are recorded."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "results"
        with writing(self._folder):
            self._folder.mkdir(mode=0o700, exist_ok=True)

    def sweep(self) -> None:
        """Removes what a killed run left half-written."""
        sweep_drafts(self._folder)

    def put(self, result: Result) -> None:
        """Keeps it, unless the grader itself failed: then it is tried again next time. Raises `StorageError`."""
        if not result.failed_by_us:
            write_whole(self._place(result.key), result.to_json().encode())

    def get(self, key: str) -> Result | None:
        """The result of that key; a damaged one is as good as absent."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            return Result.from_json(self._place(key).read_text(encoding="utf-8"))
        return None

    def _place(self, key: str) -> Path:
        return self._folder / f"{key}.json"
