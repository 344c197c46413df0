"""A folder for a while: it goes with the process that made it, at the latest when the next one is made."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path


class Scratch:
    """A new folder below the system's temporary one; `close` removes it.

    As long as its maker lives the folder is locked. What a maker that was killed has left, the next one takes away.

    >>> scratch = Scratch("grader-example-")
    >>> scratch.path.is_dir(), scratch.close(), scratch.path.exists()
    (True, None, False)
    """

    def __init__(self, prefix: str) -> None:
        _sweep(prefix)
        self._lock = -1
        while self._lock < 0:  # a sweep of somebody else's may take an unlocked folder for an abandoned one
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            self.path.chmod(0o711)
            self._lock = _locked(self.path)

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def _sweep(prefix: str) -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if path.is_symlink() or not path.is_dir():
            continue
        lock = _locked(path)
        if lock >= 0:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _locked(path: Path) -> int:
    """A descriptor that holds the folder's lock, or -1: it is another's, or gone."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return -1
    with contextlib.suppress(OSError):
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(folder).st_uid == os.geteuid() and os.fstat(folder).st_nlink:
            return folder
    os.close(folder)
    return -1
