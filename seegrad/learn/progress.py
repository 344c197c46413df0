"""A learner's progress through the course, in one plain JSON file of their own.

What is kept, by chapter: each prediction (the question, the answer, was it right, which misconception it showed, how
often it was tried) and each exercise whose checks were run (did they pass, how often were they run); and how often each
misconception was met.

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

from seegrad.learn.checks import form_alone
from seegrad.model.scene import Question
from seegrad.quiz import Feedback, judge
from seegrad.words.beliefs import MISCONCEPTIONS

SCHEMA = 1
VARIABLE = "SEEGRAD_PROGRESS"
FILE = ".seegrad_progress.json"
BESIDE = ".predictions.json"
"""Where seegrad 0.1 kept answers, beside the notebook: taken over with the next answer, and left as it is."""
CHAPTER = re.compile(r"\d\d_\w+")
SHOWN = "00_start_here"
"""The chapter without an assignment: its one check shows how an exercise answers, by an answer that is wrong."""
CHECKED = re.compile(r"\bseegrad\.check\b")  # what a cell that checks an exercise imports from


@dataclass(frozen=True, slots=True)
class Tried:
    """A prediction or an exercise: was it right the last time (an exercise: ever), and how often it was tried.

    A prediction has its question's words and the answer too, as plain JSON; its turn, which counts all answers, None
    where an older seegrad kept it; and its dress, where it was last asked of another program than the chapter's.
    An exercise whose check sees the form of an answer alone has `form`: what is right then is that it may be one.
    """

    right: bool
    tries: int = 1
    misconception: str = ""
    prompt: str | None = None
    answer: Mapping[str, Any] | None = None
    turn: int | None = None
    dress: str | None = None
    form: bool | None = None


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

    def predicted(self, chapter: str, question: str, tried: Tried) -> Progress:
        """With one more answer to a question.

        >>> Progress().predicted("02_leaf_tensors", "leaves-1", Tried(False, misconception="M01")).misconceptions
        {'M01': 1}
        """
        known = self._placed(question, chapter)
        here = known.chapters.get(chapter, Chapter())
        before = here.predictions.get(question)
        turns = [each.turn or 0 for done in known.chapters.values() for each in done.predictions.values()]
        tried = replace(tried, tries=before.tries + 1 if before else 1, turn=max(turns, default=0) + 1)
        now = replace(here, predictions={**here.predictions, question: tried})
        return known._with(chapter, now, (tried.misconception,))

    def _placed(self, question: str, chapter: str) -> Progress:
        """A question that was taken over without a chapter has one now."""
        loose = dict(self.chapters.get("", Chapter()).predictions)
        if not chapter or question not in loose:
            return self
        here = self.chapters.get(chapter, Chapter())
        placed = replace(here, predictions={question: loose.pop(question), **here.predictions})
        rest = replace(self.chapters[""], predictions=loose)
        return replace(self, chapters={**self.chapters, "": rest, chapter: placed})

    def taking_over(self, answers: Mapping[str, Tried]) -> Progress:
        """With what was kept beside a notebook, where nothing newer is known; nothing is counted again.

        A question that was never noted here belongs to no chapter: a folder holds many.
        """
        chapters = dict(self.chapters)
        home = {question: name for name, done in chapters.items() for question in done.predictions}
        for question, old in answers.items():
            name = home.get(question, "")
            done = chapters.get(name, Chapter())
            known = done.predictions.get(question, old)
            if known.answer is None or known is old:
                now = replace(known, prompt=old.prompt, answer=old.answer)
                chapters[name] = replace(done, predictions={**done.predictions, question: now})
        return replace(self, chapters=chapters)

    def checked(
        self, chapter: str, exercise: str, right: bool, misconceptions: tuple[str, ...] = (), *, form: bool = False
    ) -> Progress:
        """With one more run of an exercise's checks; what has passed once stays passed."""
        here = self.chapters.get(chapter, Chapter())
        before = here.exercises.get(exercise, Tried(False, 0))
        tried = Tried(before.right or right, before.tries + 1, "".join(misconceptions[:1]), form=form or None)
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
        return {"schema": SCHEMA, **asdict(self, dict_factory=_without_none)}

    @classmethod
    def from_data(cls, data: Any) -> Progress:
        """What was written; whatever in it isn't of the right kind is left out.

        >>> found = Progress.from_data({"chapters": {"01_x": 3, "02_y": {"exercises": {"a_test": {"right": True}}}}})
        >>> found.chapters["02_y"].exercises["a_test"].right, len(found.chapters)
        (True, 1)
        """
        chapters = {
            name: Chapter(_tried(found.get("predictions")), _tried(found.get("exercises")))
            for name, found in _objects(_object(data).get("chapters"))
        }
        counts = _object(_object(data).get("misconceptions")).items()
        return cls(chapters, {name: n for name, n in counts if name in MISCONCEPTIONS and _is_count(n)})


def _without_none(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in fields if value is not None}


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
            str(found["prompt"]) if found.get("prompt") else None,
            dict(found["answer"]) if isinstance(found.get("answer"), Mapping) else None,
            found["turn"] if _is_count(found.get("turn")) else None,
            str(found["dress"]) if found.get("dress") else None,
            True if found.get("form") is True else None,
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
    return Progress.from_data(_json(chosen)) if chosen else Progress()


def _json(path: Path) -> Any:
    """What a file holds; None where there's none, or it can't be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def write_progress(progress: Progress, path: Path) -> None:
    """Replace the file at once, so that nobody reads half of it. Where that can't be done nothing happens."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError, RecursionError):
        text = json.dumps(progress.to_data(), ensure_ascii=False, indent=1, sort_keys=True)
        try:
            part.write_text(text + "\n", encoding="utf-8")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def note_prediction(
    question: Question, answer: Mapping[str, Any], chapter: str | None = None, dress: str | None = None
) -> Feedback:
    """Judge an answer and keep it, in the chapter that is open or in the one that is named.

    Raises: QuestionError when it isn't one to this question.
    """
    said = judge(question, answer)
    path = progress_file()
    if path is not None:
        tried = Tried(said.right, 1, said.misconception, question.prompt, answer, dress=dress)
        known = read_progress(path).taking_over(_tried(_json(Path(BESIDE))))
        write_progress(known.predicted(chapter_here() if chapter is None else chapter, question.id, tried), path)
    return said


def check_passed(result: Any) -> bool | None:
    """Did a cell that IPython ran, and that checks an exercise, pass? None where it checks none."""
    if not CHECKED.search(result.info.raw_cell or ""):
        return None
    partial = _score(result)
    return _error(result) is None and (partial is None or float(partial) >= 1)


def note_cell(result: Any) -> None:
    """IPython ran a cell: if it checks an exercise, keep whether it passed. Registered by `%load_ext seegrad`."""
    path, passed = progress_file(), check_passed(result)
    if path is None or passed is None or chapter_here() == SHOWN:
        return
    met = tuple(getattr(_error(result) or _score(result), "misconceptions", ()))
    source = result.info.raw_cell or ""
    exercise = result.info.cell_id or sha1(source.encode(), usedforsecurity=False).hexdigest()[:8]
    known = read_progress(path)
    write_progress(known.checked(chapter_here(), exercise, passed, met, form=form_alone(source)), path)


def _error(result: Any) -> Any:
    return result.error_in_exec or result.error_before_exec


def _score(result: Any) -> Any:
    """A check's score, 1 for all of it; None where the cell's value is something else."""
    return result.result if hasattr(result.result, "misconceptions") else None
