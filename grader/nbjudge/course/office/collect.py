"""What students have dropped in the exchange, taken into the course: plain files only, each from whom it says."""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbgrader.exchange.default.collect import ExchangeCollect

KILOBYTE = 1000  # nbgrader's, of `max_file_size` and `max_dir_size`
ENTRIES = 10_000  # of one submission


class NotPlain(Exception):
    """A submission holds something else than files and folders, or lies in another's name."""


class PlainCollect(ExchangeCollect):  # type: ignore[misc]  # nbgrader has no types
    """nbgrader's own follows links with the grader's rights, stops at a pipe, and only warns of another's name."""

    def _sort_by_timestamp(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        own = [record for record in records if self._is_own(record)]
        found: list[dict[str, Any]] = super()._sort_by_timestamp(own or records)
        return found

    def _is_own(self, record: Mapping[str, Any]) -> bool:
        """Does the folder belong to the account that it names? Asked where nbgrader asks."""
        if not self.check_owner:
            return True
        try:
            owner = pwd.getpwuid(Path(self.inbound_path, record["filename"]).lstat().st_uid).pw_name
        except (KeyError, OSError):
            return False
        return bool(owner == record["username"])

    def copy_files(self) -> None:
        """Those that are who they say; the others are named."""
        found: list[dict[str, Any]] = vars(self)["src_records"]
        for record in found:
            if not self._is_own(record):
                self.log.error("%s isn't collected: it doesn't belong to the student it names", record["filename"])
        self.src_records = [record for record in found if self._is_own(record)]
        super().copy_files()

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        """Through a folder of our own, into which nothing is followed; a student may still be at work in theirs."""
        with tempfile.TemporaryDirectory() as ours:
            copied = Path(ours, Path(dest).name)
            try:
                copy_plain(
                    Path(src), copied, self.coursedir.max_file_size * KILOBYTE, self.coursedir.max_dir_size * KILOBYTE
                )
            except (NotPlain, OSError) as error:
                self.log.error("%s isn't collected: %s", Path(src).name, error)  # noqa: TRY400 -- no traceback: a sentence
                return
            super().do_copy(str(copied), dest, log)


def copy_plain(source: Path, target: Path, file_bytes: int, most_bytes: int) -> None:
    """Files and folders; of a file that is larger one byte more than `file_bytes`, so that nbgrader leaves it out.

    Raises:
        NotPlain: anything else is among them, or they are too many, or larger than `most_bytes` together.
    """
    left, entries = most_bytes, 0
    for base, folders, files, held in os.fwalk(source, follow_symlinks=False):
        entries += len(folders) + len(files)
        if entries > ENTRIES:
            raise NotPlain(f"it holds more than {ENTRIES:,} files")
        here = target / Path(base).relative_to(source)
        here.mkdir()
        for name in folders:
            if not stat.S_ISDIR(os.lstat(name, dir_fd=held).st_mode):
                raise NotPlain(f"{name!r} is a link")
        for name in files:
            content = _read(name, held, file_bytes + 1)
            left -= len(content)
            if left < 0:
                raise NotPlain(f"it is larger than {most_bytes:,} bytes")
            (here / name).write_bytes(content)


def _read(name: str, folder: int, most_bytes: int) -> bytes:
    try:
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        raise NotPlain(f"{name!r} is no plain file: {error.strerror}") from error
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NotPlain(f"{name!r} is no plain file")
        return file.read(most_bytes)
