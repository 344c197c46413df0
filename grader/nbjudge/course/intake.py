"""A submitted folder → a Submission, or one with the reason why it can't be graded. Executes nothing.

Everything here was written by somebody who may want to harm: sizes are bounded before a byte is read, links are
refused, and a notebook is rebuilt from the few fields that grading needs, so that odd ones never reach a later stage.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from nbjudge.course.notebook import Unreadable, canonical
from nbjudge.model import Limits, Submission

MAX_FILES = 1000
TIMESTAMP_BYTES = 256
IGNORED = (".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", ".DS_Store")


def read(folder: Path, student: str, assignment: str, limits: Limits | None = None) -> Submission:
    """What `student` handed in for `assignment`, or a Submission whose `refusal` says in one sentence what is wrong.

    Never raises for what a student may have put there; an `OSError` of the machine's (a full disk, no permission)
    becomes a refusal too, so that one folder never stops a class.
    """
    try:
        return _read(folder, student, assignment, limits or Limits())
    except Unreadable as error:
        return Submission(student, assignment, refusal=str(error))
    except OSError as error:
        return Submission(student, assignment, refusal=f"the folder could not be read: {error.strerror or error}")


def _read(folder: Path, student: str, assignment: str, limits: Limits) -> Submission:
    _refuse_linked_folders(folder)
    notebooks: dict[str, str] = {}
    files: dict[str, bytes] = {}
    timestamp = None
    left_bytes = limits.submission_bytes
    for path in _plain_files(folder):
        name = path.relative_to(folder).as_posix()
        if name == "timestamp.txt":
            timestamp = _bounded(path, TIMESTAMP_BYTES)[0].decode("utf-8", "replace").strip()
        elif name.endswith(".ipynb") and "/" not in name:
            notebooks[name.removesuffix(".ipynb")] = canonical(_notebook(path, limits), name)
        elif not name.endswith(".ipynb"):
            files[name], size_bytes = _bounded(path, left_bytes)
            left_bytes -= size_bytes
            if left_bytes < 0:
                raise Unreadable(f"the files beside the notebook are larger than {_megabytes(limits.submission_bytes)}")
    return Submission(student, assignment, notebooks, files, timestamp)


def _refuse_linked_folders(folder: Path) -> None:
    for path in (folder, folder.parent):
        if path.is_symlink():
            raise Unreadable(f"the folder {path.name!r} is a symbolic link; hand in the files themselves")
    if not folder.is_dir():
        raise Unreadable(f"{folder.name!r} is a file, not a folder")


def _plain_files(folder: Path) -> Iterator[Path]:
    """Every file, in one order everywhere; refuses links, pipes, devices, and more than MAX_FILES."""
    waiting = [folder]
    seen = 0
    while waiting:
        for entry in sorted(os.scandir(waiting.pop()), key=lambda entry: entry.name):
            if any(fnmatch.fnmatch(entry.name, pattern) for pattern in IGNORED):
                continue
            seen += 1
            if seen > MAX_FILES:
                raise Unreadable(f"more than {MAX_FILES} files")
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                waiting.append(Path(entry.path))
            elif stat.S_ISREG(mode):
                yield Path(entry.path)
            else:
                kind = "a symbolic link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
                raise Unreadable(f"{_shown(entry.name)} is {kind}; hand in the files themselves")


def _bounded(path: Path, limit_bytes: int) -> tuple[bytes, int]:
    """The file's bytes where they are within the limit, and its size; O_NOFOLLOW closes the gap since the listing."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        size_bytes = os.fstat(descriptor).st_size
        content = b"" if size_bytes > limit_bytes else file.read(limit_bytes + 1)
    return content, max(size_bytes, len(content))


def _notebook(path: Path, limits: Limits) -> bytes:
    content, size_bytes = _bounded(path, limits.notebook_bytes)
    if size_bytes > limits.notebook_bytes:
        raise Unreadable(
            f"{_shown(path.name)} is too large: {_megabytes(size_bytes)}, allowed are "
            f"{_megabytes(limits.notebook_bytes)}; clear all outputs, save, and hand it in again"
        )
    return content


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:79] + "…")


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.1f} MB"
