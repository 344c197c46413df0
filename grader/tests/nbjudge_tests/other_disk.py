"""A program: grade on a disk that is full or read-only, then on a healthy one. `test_batch` starts it.

python -m nbjudge_tests.other_disk (full | readonly) COURSE FOLDER   FOLDER: the part of the course that is there
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nbjudge.course.gradebook import Record
from nbjudge.course.layout import Course
from nbjudge.errors import GraderError
from nbjudge.grading.batch import Farm, RunOptions, autograde
from nbjudge.grading.farm import grade_all
from nbjudge.sandbox import syscalls as layers
from nbjudge_tests.classroom import small
from nbjudge_tests.results import Counting

ROOM_BYTES, PAGE_BYTES = 48 << 10, 4096
OPTIONS = RunOptions(reference="none")


def main(kind: str, root: Path, folder: str) -> None:
    """Twice over the same class; what is said, and what is recorded in the end."""
    if os.getuid() != 0:
        layers.new_user_namespace(0)
    layers.unshare(layers.NEWNS)
    layers.private_mounts()
    place = root / folder
    if folder and not place.exists():
        place.mkdir()
    course = Course(root, f"sqlite:///{root / 'gradebook.db'}", "autograd101")
    undo = spoil(kind, place)
    graded = 0
    try:
        entries = autograde(course, small.NAME, OPTIONS, farm())
        print(*{entry.problem for entry in entries}, sep="\n")  # noqa: T201 -- a program
    except GraderError as error:
        print(f"{type(error).__name__}: {error}")  # noqa: T201 -- the same
    undo()
    entries = autograde(course, small.NAME, OPTIONS, farm())
    graded = sum(entry.problem is None for entry in entries)
    with Record(course) as record:
        print(f"after: {graded} graded, {len(record.applied(small.NAME))} recorded")  # noqa: T201 -- the same


def farm() -> Farm:
    return partial(grade_all, open_judge=Counting(), workers=1)


def spoil(kind: str, place: Path) -> Callable[[], object]:
    """Make the place read-only, or a disk with little room; returns what undoes it."""
    if kind == "readonly":
        layers.mount(str(place), place, None, layers.MS_BIND)
        layers.mount(None, place, None, layers.MS_BIND | layers.MS_REMOUNT | layers.MS_RDONLY)
        return lambda: layers.mount(None, place, None, layers.MS_BIND | layers.MS_REMOUNT)
    copy = Path(tempfile.mkdtemp(dir=place.parent))
    shutil.copytree(place, copy, dirs_exist_ok=True)
    used_pages = sum(-(-path.stat().st_size // PAGE_BYTES) for path in copy.rglob("*"))
    layers.mount_tmpfs(place, used_pages * PAGE_BYTES + ROOM_BYTES, "0755")
    shutil.copytree(copy, place, dirs_exist_ok=True)
    shutil.rmtree(copy)
    return lambda: layers.mount(None, place, None, layers.MS_REMOUNT, "size=1G")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
