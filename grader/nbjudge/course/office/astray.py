"""What lies under `submitted/` where nobody looks for it: in a folder of another name, or unpacked without one.

nbgrader passes such a student over, who is then in no table and no CSV.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

from nbjudge.course.intake import IGNORED
from nbjudge.course.layout import Course

NO_FOLDER = "there is no folder {name}, but {found}"
NO_FOLDER_AROUND = "the notebook lies in {folder}; it belongs in {folder}/{name}"
UNREADABLE = "the folder can't be read: {why}"
MOST_NAMES = 3
STAMP = "timestamp.txt"
Notebooks = Mapping[str, Collection[str]]  # assignment → the names of its notebooks


def astray(
    course: Course, name: str, known: Notebooks, students: Collection[str] = ("*",)
) -> Iterator[tuple[str, str]]:
    """(student, why) of each who has handed something in that is of no assignment, and has no folder `name`.

    `students` are patterns. Who has handed in other assignments alone isn't told.
    """
    found = {student for student, _ in course.submissions(name)}
    for student, folder in course.students():
        if student not in found and any(fnmatch(student, one) for one in students):
            try:
                why = _why(folder, name, known)
            except OSError as error:
                why = UNREADABLE.format(why=error.strerror or error)
            if why:
                yield student, why


def _why(folder: Path, name: str, known: Notebooks) -> str | None:
    every = sorted(path.name for path in folder.iterdir())
    there = [one for one in every if not any(fnmatch(one, pattern) for pattern in IGNORED)]
    if any(f"{book}.ipynb" in there for book in known.get(name, ())):
        return NO_FOLDER_AROUND.format(folder=f"{folder.parent.name}/{folder.name}", name=name)
    others = {*known, *(f"{book}.ipynb" for books in known.values() for book in books), STAMP}
    strange = [one for one in there if one not in others]
    more = [f"{len(strange) - MOST_NAMES} more"] if len(strange) > MOST_NAMES else []
    return NO_FOLDER.format(name=name, found=", ".join(strange[:MOST_NAMES] + more)) if strange else None
