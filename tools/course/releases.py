"""An assignment as nbgrader releases it, made by nbgrader itself in a course folder that is thrown away.

The real gradebook isn't touched: it is filled when the instructor runs `nbjudge generate`.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.course.masters import BookError


def released(name: str, sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """The released files of assignment `name`, by relative path, from those of its source folder.

    Raises BookError with nbgrader's own words when it refuses.
    """
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        root = Path(folder)
        for relative, data in sources.items():
            path = root / "source" / name / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        _generate(root, name)
        made = root / "release" / name
        return {str(path.relative_to(made)): path.read_bytes() for path in sorted(made.rglob("*")) if path.is_file()}


def _generate(root: Path, name: str) -> None:
    """Run nbgrader's GenerateAssignment on a course root, quietly; what it complains of becomes the error."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.converters.base import NbGraderException
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config

    config = Config()
    config.CourseDirectory.root = str(root)
    config.CourseDirectory.assignment_id = name
    config.SaveCells.enabled = False  # as nbgrader's own --no-db: no gradebook, not even a temporary one
    course = CourseDirectory(config=config)
    log = logging.getLogger("tools.course.releases")
    complaints = _Complaints(logging.WARNING)
    log.handlers, log.propagate = [complaints], False
    converter = GenerateAssignment(coursedir=course, config=config, no_database=True, log=log)
    try:
        converter.start()
    except (NbGraderException, SystemExit) as error:
        raise BookError(f"nbgrader can't release {name}: {complaints.reason() or error}") from error


class _Complaints(logging.Handler):
    """Keeps what was logged."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.texts: list[str] = []

    def reason(self) -> str:
        """The last line of the traceback that nbgrader logged, else its last words."""
        told = [text for text in self.texts if "Traceback" in text] or self.texts
        return told[0].strip().splitlines()[-1] if told else ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self.texts.append(record.getMessage())
