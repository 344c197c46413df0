"""An assignment's rows in the gradebook, from its source, by nbgrader's own GenerateAssignment.

Where a course has its releases under version control, as this repository does, nbgrader skips what is released already,
and no gradebook is made. Here the rows are made all the same, and the release stays as it is.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader.converters.base import NbGraderException

from nbjudge.course import privacy
from nbjudge.course.layout import Course, checked_name
from nbjudge.errors import CourseError
from nbjudge.shown.text import counted

MADE = (
    "{name}: {questions}, {points}, in the gradebook; {released}. What students hand in goes into {submitted}, then "
    "`nbjudge autograde {name}`"
)
DIFFERS = (
    "{name}: nothing was released: {released} differs from what the source makes ({notebooks}), which is newer, or "
    "somebody has written in the release; --force writes it anew, over what was written in it. The gradebook knows "
    "the source"
)


class NotReleased(NbGraderException):  # type: ignore[misc]  # nbgrader ships no types
    """An author has something to mend: what, has been said, and this is how it goes on."""


@dataclass(frozen=True)
class Generated:
    """One sentence on what was made, and whether students would get another text than the source says."""

    told: str
    stale: bool = False


def generate(converter: Any, course: Course, *, force: bool) -> Generated:
    """What was made. `converter` is nbgrader's own, configured; `force` writes the release anew.

    Raises `CourseError` where there is no such source, or nbgrader refuses.
    """
    name = checked_name(converter.coursedir.assignment_id)
    if not course.folder(course.source, ".", name).is_dir():
        raise course.unknown(name)
    try:
        return _generated(converter, course, name, force=force)
    finally:
        privacy.close(course)


def _generated(converter: Any, course: Course, name: str, *, force: bool) -> Generated:
    coursedir = converter.coursedir
    released = Path(coursedir.format_path(coursedir.release_directory, ".", name))
    if force or not released.is_dir():
        _run(converter, name)
        return Generated(_made(course, name, released, f"released to {released}"))
    with tempfile.TemporaryDirectory() as folder:
        coursedir.release_directory = folder
        _run(converter, name)
        stale = [path.name for path in sorted(Path(folder).rglob("*.ipynb")) if _differs(path, released / path.name)]
    if stale:
        return Generated(DIFFERS.format(name=name, released=released, notebooks=", ".join(stale)), stale=True)
    return Generated(_made(course, name, released, f"{released} is up to date"))


def _made(course: Course, name: str, released: Path, where: str) -> str:
    marks = [given or {} for path in released.rglob("*.ipynb") for *_, given in _cells(path)]
    asked = [one for one in marks if one.get("grade") or one.get("task")]
    points = counted(sum(float(one.get("points") or 0) for one in asked), "point")
    submitted = course.folder(course.submitted, "STUDENT", name).relative_to(course.root)
    questions = counted(len(asked), "question")
    return MADE.format(name=name, questions=questions, points=points, released=where, submitted=submitted)


def _run(converter: Any, name: str) -> None:
    converter.force = True
    try:
        converter.start()
    except NotReleased as error:
        raise CourseError(str(error)) from error
    except (NbGraderException, SystemExit) as error:
        raise CourseError(f"nbgrader can't generate {name}: {error}; what it said is above") from error


def _differs(fresh: Path, old: Path) -> bool:
    """Would a student get other cells?"""
    return not old.is_file() or _cells(fresh) != _cells(old)


def _cells(path: Path) -> list[tuple[str, str, Any]]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [(cell["cell_type"], "".join(cell["source"]), cell["metadata"].get("nbgrader")) for cell in found]
