"""The course's disk: files whole or not at all, one grader at a time, and an error that says what to do."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nbjudge.errors import BusyError, DiskFull, StorageError

FULL = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
DRAFT = ".tmp"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What fails inside becomes a `StorageError`: which place, why, and what to do. A full disk is a `DiskFull`."""
    try:
        yield
    except OSError as error:
        said = f"{error.filename or path} can't be written: {error.strerror or error}"
        if error.errno in FULL:
            raise DiskFull(f"{said}. What is recorded is safe; make room and run the same command again") from error
        advice = ". Give this user the right to write there and run again" if error.errno in FORBIDDEN else ""
        raise StorageError(said + advice) from error


def write_whole(path: Path, content: bytes, mode: int = 0o600) -> None:
    """The file with this content, or as it was before. Raises `StorageError`."""
    draft = path.with_name(f"{path.name}.{os.getpid()}{DRAFT}")
    with writing(path):
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise


def sweep_drafts(folder: Path) -> None:
    """Removes what a killed run has left half-written; call it while you hold the folder alone."""
    for draft in folder.glob(f"*{DRAFT}"):
        draft.unlink(missing_ok=True)


@contextmanager
def held_alone(folder: Path) -> Iterator[None]:
    """Only one process at a time gets past here; the kernel lets go when it ends, however it does.

    Raises `BusyError`, which names the other one.
    """
    path = folder / "lock"
    with writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.read(descriptor, 200).decode("utf-8", "replace").strip() or "one that has just started"
            raise BusyError(f"another grader is at work on this course: {other}. Wait until it has ended") from None
        me = f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%H:%M:%S')}\n"
        with writing(path):
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, me.encode(), 0)
        yield
    finally:
        os.close(descriptor)
