"""Who else on this machine could read a course: what the grader writes is the owner's, of the rest `doctor` speaks."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nbjudge.course.layout import Course

OTHERS = stat.S_IRWXO
SQLITE = "sqlite:///"


def gradebook_files(course: Course) -> list[Path]:
    """The gradebook's file and SQLite's own beside it; none where a server keeps it."""
    if not course.db_url.startswith(SQLITE):
        return []
    path = course.root / course.db_url.removeprefix(SQLITE)
    return sorted(path.parent.glob(f"{path.name}*"))


def close(course: Course) -> None:
    """Takes from others what this grader writes: the gradebook, and the folder of graded notebooks."""
    for path in (*gradebook_files(course), course.root / course.autograded):
        with suppress(OSError):  # somebody else's, or not there
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & OTHERS:
                path.chmod(mode & ~OTHERS)


def exposed(course: Course) -> Iterator[Path]:
    """What every other user of this machine could read, or write, of what students shouldn't see."""
    folders = (course.source, course.submitted, course.autograded, "feedback", ".grader")
    for path in (*gradebook_files(course), *(course.root / folder for folder in folders)):
        if path.exists() and is_open(path):
            yield path


def is_open(path: Path) -> bool:
    """True where others come as far as this file or folder, and may look into it.

    >>> is_open(Path("/etc/passwd")), is_open(Path("/etc/shadow"))
    (True, False)
    """
    path = path.resolve()
    if not all(folder.stat().st_mode & stat.S_IXOTH for folder in path.parents):
        return False
    mode = path.stat().st_mode
    wanted = stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
    return bool(mode & (wanted | stat.S_IWOTH))
