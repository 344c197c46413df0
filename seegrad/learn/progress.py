"""A learner's progress through the course, in one plain JSON file of their own.

What is kept, by chapter: each prediction (was it right, which misconception it showed, how often it was tried) and each
exercise whose checks were run (did they pass, how often were they run); and how often each misconception was met.

The file is SEEGRAD_PROGRESS, else `.seegrad_progress.json` in the home folder. It is only touched from a notebook that
somebody has open, so building or grading a course never writes into anyone's progress. What can't be read is begun
anew, what can't be written is forgotten: progress never costs a lesson.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha1
from pathlib import Path, PurePath
from typing import Any

from seegrad.words.beliefs import MISCONCEPTIONS

SCHEMA = 1
VARIABLE = "SEEGRAD_PROGRESS"
FILE = ".seegrad_progress.json"
CHAPTER = re.compile(r"\d\d_\w+")
CHECKED = re.compile(r"\bseegrad\.check\b")  # what a cell that checks an exercise imports from


@dataclass(frozen=True, slots=True)
class Tried:
    """A prediction or an exercise: was it right the last time (an exercise: ever), and how often it was tried."""

    right: bool
    tries: int = 1
    misconception: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """What was done in one chapter and its assignment, by question id and by the id of the checking cell."""

    predictions: dict[str, Tried] = field(default_factory=dict)
    exercises: dict[str, Tried] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """All that is kept of one learner. `misconceptions` counts how often each was met."""

    chapters: dict[str, Chapter] = field(default_factory=dict)
    misconceptions: dict[str, int] = field(default_factory=dict)

    def predicted(self, chapter: str, question: str, right: bool, misconception: str = "") -> Progress:
        """With one more answer to a question.

        >>> Progress().predicted("02_leaf_tensors", "leaves-1", False, "M01").misconceptions
        {'M01': 1}
        """
        here = self.chapters.get(chapter, Chapter())
        before = here.predictions.get(question)
        tried = Tried(right, before.tries + 1 if before else 1, misconception)
        now = replace(here, predictions={**here.predictions, question: tried})
        return self._with(chapter, now, (misconception,))

    def checked(self, chapter: str, exercise: str, right: bool, misconceptions: tuple[str, ...] = ()) -> Progress:
        """With one more run of an exercise's checks; what has passed once stays passed."""
        here = self.chapters.get(chapter, Chapter())
        before = here.exercises.get(exercise, Tried(False, 0))
        tried = Tried(before.right or right, before.tries + 1, "".join(misconceptions[:1]))
        now = replace(here, exercises={**here.exercises, exercise: tried})
        return self._with(chapter, now, misconceptions)

    def _with(self, chapter: str, now: Chapter, met: tuple[str, ...]) -> Progress:
        counts = dict(self.misconceptions)
        for number in met:
            if number in MISCONCEPTIONS:
                counts[number] = counts.get(number, 0) + 1
        return Progress({**self.chapters, chapter: now}, counts)

    def to_data(self) -> dict[str, Any]:
        """Plain dicts, as they are written."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_data(cls, data: Any) -> Progress:
        """What was written; whatever in it isn't of the right kind is left out.

        >>> Progress.from_data({"chapters": {"01_x": 3, "02_y": {"exercises": {"a_test": {"right": True}}}}}).chapters
        {'02_y': Chapter(predictions={}, exercises={'a_test': Tried(right=True, tries=1, misconception='')})}
        """
        chapters = {
            name: Chapter(_tried(found.get("predictions")), _tried(found.get("exercises")))
            for name, found in _objects(_object(data).get("chapters"))
        }
        counts = _object(_object(data).get("misconceptions")).items()
        return cls(chapters, {name: n for name, n in counts if name in MISCONCEPTIONS and _is_count(n)})


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: Any) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, found) for name, found in _object(value).items() if isinstance(found, Mapping)]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _tried(value: Any) -> dict[str, Tried]:
    return {
        name: Tried(
            found.get("right") is True,
            found["tries"] if _is_count(found.get("tries")) else 1,
            str(found.get("misconception") or ""),
        )
        for name, found in _objects(value)
    }


def progress_file() -> Path | None:
    """Where the progress of whoever sits here is kept; None where no notebook is open and no file was named."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    if notebook() is None:
        return None
    try:
        return Path.home() / FILE
    except RuntimeError:  # an account without a home
        return None


def notebook() -> PurePath | None:
    """The notebook that somebody has open on this kernel, as Jupyter or VS Code names it."""
    named = os.environ.get("JPY_SESSION_NAME")
    if not named and "IPython" in sys.modules:
        shell = sys.modules["IPython"].get_ipython()
        named = getattr(shell, "user_ns", {}).get("__vsc_ipynb_file__")
    return PurePath(named) if isinstance(named, str) and named else None


def chapter_here() -> str:
    """The chapter that is open, `05_data_versus_detach`; "" where it isn't one of the course's."""
    found = CHAPTER.match(here.stem) if (here := notebook()) else None
    return found[0] if found else ""


def read_progress(path: Path | None = None) -> Progress:
    """What is kept; nothing where no file is, or what is there can't be read.

    >>> read_progress(Path("no such file"))
    Progress(chapters={}, misconceptions={})
    """
    chosen = path or progress_file()
    try:
        return Progress.from_data(json.loads(chosen.read_text(encoding="utf-8"))) if chosen else Progress()
    except (OSError, ValueError, RecursionError):
        return Progress()


def write_progress(progress: Progress, path: Path) -> None:
    """Replace the file at once, so that nobody reads half of it. Where that can't be done nothing happens."""
    text = json.dumps(progress.to_data(), indent=1, sort_keys=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        try:
            part.write_text(text + "\n", encoding="utf-8")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def note_prediction(question: str, right: bool, misconception: str = "") -> None:
    """Keep that a question was answered."""
    path = progress_file()
    if path is not None:
        write_progress(read_progress(path).predicted(chapter_here(), question, right, misconception), path)


def note_cell(result: Any) -> None:
    """IPython ran a cell: if it checks an exercise, keep whether it passed. Registered by `%load_ext seegrad`."""
    path = progress_file()
    source = result.info.raw_cell or ""
    if path is None or not CHECKED.search(source):
        return
    error = result.error_in_exec or result.error_before_exec
    partial = result.result if hasattr(result.result, "misconceptions") else None  # a check's score: 1 is all of it
    met = tuple(getattr(error or partial, "misconceptions", ()))
    passed = error is None and (partial is None or float(partial) >= 1)
    exercise = result.info.cell_id or sha1(source.encode(), usedforsecurity=False).hexdigest()[:8]
    write_progress(read_progress(path).checked(chapter_here(), exercise, passed, met), path)
