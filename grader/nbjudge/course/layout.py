"""Where a course keeps its things, and how they are written.

nbgrader's folders, and `.grader/` beside the gradebook for the grader's own; files whole or not at all, one grader at a
time, and an error that says what to do.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import secrets
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path

from nbjudge.errors import BusyError, CourseError, DiskFull, StorageError

SEED_BITS = 63  # torch takes a signed 64-bit seed
FULL = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
DRAFT = ".tmp"
MOST_LETTERS = 128  # of a name, as nbgrader's gradebook keeps it
PATTERN = frozenset("/\\\0*?[]")
CONFIG = "nbgrader_config.py"
NO_COURSE = "there is no {config} in {root}: run this in the course's folder"
NOT_GENERATED = "the gradebook knows no assignment {name!r}; run `nbjudge generate {name}` first"
NO_ASSIGNMENT = "this course has no assignment {name!r}.{nearest} It has {known}"


@dataclass(frozen=True, slots=True)
class Course:
    """A course's folders and gradebook, as nbgrader's configuration names them."""

    root: Path
    db_url: str
    course_id: str = "default_course"
    structure: str = "{nbgrader_step}/{student_id}/{assignment_id}"
    source: str = "source"
    submitted: str = "submitted"
    autograded: str = "autograded"
    permissions: int = 0o444  # of files under `autograded`
    groupshared: bool = False
    ignore: tuple[str, ...] = (".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback")
    kept_files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # assignment → files never overwritten

    def folder(self, step: str, student: str, assignment: str) -> Path:
        """The folder of one step, student and assignment."""
        return self.root / self.structure.format(nbgrader_step=step, student_id=student, assignment_id=assignment)

    @property
    def state(self) -> Path:
        """The grader's own folder, readable by its owner alone: it holds executed hidden tests and the seeds."""
        path = self.root / ".grader"
        with writing(path):
            path.mkdir(mode=0o700, exist_ok=True)
        return path

    def submissions(self, assignment: str, students: Collection[str] = ("*",)) -> Iterator[tuple[str, Path]]:
        """(student, folder) of everything handed in for `assignment`, by name; `students` are patterns."""
        names = {"nbgrader_step": self.submitted, "student_id": "*", "assignment_id": glob.escape(assignment)}
        marker = Path(self.structure.format(nbgrader_step="", student_id="*", assignment_id=assignment)).parts
        depth = len(marker) - marker.index("*")
        for path in sorted(self.root.glob(self.structure.format(**names))):
            student = path.parts[-depth]
            if not student.startswith(".") and any(fnmatch(student, one) for one in students):
                yield student, path

    def students(self) -> Iterator[tuple[str, Path]]:
        """(student, folder) of all that have one under `submitted`, where the course lays assignments into it."""
        below = self.folder(self.submitted, "STUDENT", "ASSIGNMENT")
        if below.parts[-2:] != ("STUDENT", "ASSIGNMENT"):
            return
        for path in sorted(below.parent.parent.glob("*")):
            if path.is_dir() and not path.name.startswith("."):
                yield path.name, path

    def sources(self) -> list[str]:
        """The assignments that the course has written, released or not."""
        above = self.folder(self.source, ".", "ASSIGNMENT").parent
        return sorted({path.parent.name for path in above.glob("*/*.ipynb")})

    def demand_there(self) -> None:
        """Raises `CourseError` in a folder that is none of a course."""
        if not ((self.root / CONFIG).is_file() or (self.root / self.source).is_dir()):
            raise CourseError(NO_COURSE.format(config=CONFIG, root=self.root.absolute()))

    def unknown(self, assignment: str, generated: Collection[str] = ()) -> CourseError:
        """Why there is nothing of this name in the gradebook, which has those that are `generated`."""
        known = sorted({*generated, *self.sources()})
        if assignment in known:
            return CourseError(NOT_GENERATED.format(name=assignment))
        near = [one for one in known if one.startswith(assignment)] or get_close_matches(assignment, known)
        nearest = f" Did you mean {near[0]}?" if near else ""
        return CourseError(NO_ASSIGNMENT.format(name=assignment, nearest=nearest, known=", ".join(known) or "none yet"))

    def own_files(self, assignment: str) -> dict[str, bytes]:
        """The course's data files for `assignment`: everything beside its source notebooks."""
        folder = self.folder(self.source, ".", assignment)
        kept = self.kept_files.get(assignment, ())
        found = {}
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            ignored = any(fnmatch(part, pattern) for part in Path(name).parts for pattern in self.ignore)
            if path.is_file() and path.suffix != ".ipynb" and not ignored and name not in kept:
                found[name] = path.read_bytes()
        return found

    def seed(self, assignment: str, *, new: bool = False) -> int:
        """The seed of the tests' secret inputs, drawn once and kept; `new` draws another.

        Raises `CourseError` where the file is damaged.
        """
        path = self.state / f"{checked_name(assignment)}.seed"
        if new or not path.exists():
            write_whole(path, f"{secrets.randbits(SEED_BITS)}\n".encode())
        try:
            return int(path.read_text(encoding="ascii"))
        except ValueError:
            raise CourseError(f"{path} is damaged: it should hold one number; --new-seed draws another") from None


def checked_name(assignment: str) -> str:
    """The name, where it can be a folder's; raises `CourseError` otherwise.

    >>> checked_name("05_data_versus_detach")
    '05_data_versus_detach'
    """
    if unusable(assignment):
        raise CourseError(f"{assignment!r} can't be an assignment: its name has to be the name of its folder")
    return assignment


def unusable(name: str) -> str | None:
    """Why a folder's name can't be a student's id, or an assignment's name; None where it can.

    What passes is one line of visible text in every table, log and page, and means itself wherever it is a pattern.

    >>> unusable("Ada van Lovelace"), unusable("ada\\n2 bob")
    (None, "it holds letters that can't be shown")
    """
    if not name or name.startswith("."):
        return "it is empty or begins with a dot"
    if len(name) > MOST_LETTERS:
        return f"it is longer than {MOST_LETTERS} letters"
    if not name.isprintable():  # surrogates, that is no UTF-8, among them
        return "it holds letters that can't be shown"
    return "it holds one of / \\ * ? [ ]" if PATTERN & set(name) else None


def make_closed(folder: Path, *, shared: bool) -> None:
    """The folder, and those above it that lack: nobody but owner and group comes in, from the moment they are there."""
    for each in reversed([folder, *folder.parents]):
        if not each.is_dir():
            each.mkdir(mode=0o770)
            if shared:
                share(each)


def share(folder: Path) -> None:
    """nbgrader's `groupshared`: the group may write, and new files stay the group's."""
    folder.chmod((folder.stat().st_mode | 0o2770) & 0o2777)


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
def held_alone(folder: Path, lock: str = "lock", wait_s: float = 0.0) -> Iterator[None]:
    """Only one at a time gets past here; the kernel lets go when it ends, however it does.

    Raises `BusyError`, which names the other one, where that one doesn't let go in time.
    """
    path, deadline = folder / lock, time.monotonic() + wait_s
    with writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _locked(descriptor):
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            other = os.read(descriptor, 200).decode("utf-8", "replace").strip() or "one that has just started"
            raise BusyError(f"another grader is at work on this course: {other}. Wait until it has ended")
        me = f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%H:%M:%S')}\n"
        with writing(path):
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, me.encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
