"""What a judged submission leaves on disk: its Result by content hash, and the folder that a person reads.

What was once judged is judged once, and a killed run goes on where it stopped; nbgrader's
`autograded/<student>/<assignment>/` is swapped in as a whole.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from nbjudge.course.intake import moment, stamp
from nbjudge.course.layout import Course, make_closed, share, sweep_drafts, write_whole, writing
from nbjudge.model import Assignment, Graded, Result, Submission


class Kept:
    """The results of a course, one file each, named by key. A result is on disk before its grades are recorded."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "results"
        with writing(self._folder):
            self._folder.mkdir(mode=0o700, exist_ok=True)

    def sweep(self) -> None:
        """Removes what a killed run left half-written."""
        sweep_drafts(self._folder)

    def put(self, result: Result) -> None:
        """Keeps it; of one that is void, too, a person wants to know why. Raises `StorageError`."""
        write_whole(self._place(result.key), result.to_json().encode())

    def drop(self, key: str) -> None:
        """Nobody's grades come from it any more. Without this, who hands in again and again fills the disk."""
        with suppress(OSError):
            self._place(key).unlink()

    def get(self, key: str) -> Result | None:
        """The result of that key; a damaged one is as good as absent."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            return Result.from_json(self._place(key).read_text(encoding="utf-8"))
        return None

    def _place(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def is_new(state: Path, name: str, sentences: Sequence[str]) -> bool:
    """Is anything of this news to who grades assignment `name`? It is kept, so that it is said once."""
    place, said = state / "said" / f"{name}.json", json.dumps(sentences)
    with suppress(OSError, ValueError):
        if place.read_text(encoding="utf-8") == said:
            return False
    with writing(place):
        place.parent.mkdir(mode=0o700, exist_ok=True)
    write_whole(place, said.encode())
    return bool(sentences)


def publish(result: Result, submission: Submission, assignment: Assignment, course: Course) -> Path:
    """Writes the folder that nbgrader's feedback and formgrader read, beside the old one, then exchanges them.

    Files of an earlier submission are gone afterwards. A kill in between leaves the old folder or none, never half.
    Raises `StorageError`, and the old folder stays.
    """
    target = course.folder(course.autograded, result.student, result.assignment)
    draft, old = (target.with_name(f".{target.name}.{os.getpid()}{end}.swap") for end in ("new", "old"))
    with writing(target):
        try:
            _write(draft, _contents(result, submission, assignment), course)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        if target.exists():
            target.rename(old)
        draft.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    return target


def sweep_swaps(course: Course, assignment: str) -> None:
    """Removes what killed runs have left beside the graded folders; call it while you hold the course alone."""
    target = course.folder(course.autograded, "*", assignment)
    for leftover in course.root.glob(str(target.with_name(f".{target.name}.*.swap").relative_to(course.root))):
        shutil.rmtree(leftover, ignore_errors=True)


def _write(draft: Path, contents: Iterable[tuple[str, bytes]], course: Course) -> None:
    make_closed(draft, shared=course.groupshared)
    for name, content in contents:
        path = draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(course.permissions)
    if course.groupshared:
        _share(draft)


def _contents(result: Result, submission: Submission, assignment: Assignment) -> Iterator[tuple[str, bytes]]:
    ours = {*assignment.files, "timestamp.txt", *(f"{notebook.name}.ipynb" for notebook in assignment.notebooks)}
    theirs = {name: content for name, content in submission.files.items() if not _in_the_way(name, ours)}
    yield from {**theirs, **assignment.files}.items()
    if when := moment(result.timestamp):
        yield "timestamp.txt", stamp(when).encode()
    if result.refusal is not None:
        for notebook in assignment.notebooks:
            yield f"{notebook.name}.ipynb", notice(f"This submission could not be graded: {result.refusal}").encode()
    for graded in result.notebooks:
        if not graded.missing:
            yield f"{graded.name}.ipynb", (graded.notebook or notice(_failure(graded))).encode()


def _in_the_way(name: str, ours: Iterable[str]) -> bool:
    """A file of the student's where we need a folder, or the other way round.

    >>> [_in_the_way(name, ["data/a.csv"]) for name in ("data", "data/a.csv/b", "data/b.csv")]
    [True, True, False]
    """
    return any(f"{other}/".startswith(f"{name}/") or name.startswith(f"{other}/") for other in ours if other != name)


def _failure(graded: Graded) -> str:
    reasons = sorted({outcome.message for outcome in graded.outcomes if outcome.message})
    return "The grader itself failed here; nothing was counted. " + " ".join(reasons)


def notice(sentence: str) -> str:
    """A notebook that says one sentence, as plain text, to whoever looks for the graded one."""
    fenced = "    " + sentence.replace("\n", " ")
    cell = {"cell_type": "markdown", "id": "notice", "metadata": {}, "source": f"**Not graded**\n\n{fenced}"}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, ensure_ascii=False)


def _share(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_dir():
            share(path)
