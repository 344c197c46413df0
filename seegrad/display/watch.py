"""A whole program watched from its first line on: silent, until something is found."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from seegrad.capture.mode import quietly
from seegrad.capture.probes.places import Code
from seegrad.display.findings import heading
from seegrad.display.page import write_page
from seegrad.model.recording import Diagnosis, Recording
from seegrad.recorder import record
from seegrad.words.languages import _

LOOKS = (3, 30, 300, 3_000)
"""The backward calls after which the program is looked at while it runs, so that a long one needn't end first."""

MOST_EXPLAINED = 10
"""Errors of torch's that are explained where they're raised: a program may raise and catch them by the thousand."""


class ProgramWatch:
    """Records this thread from `begin` to `end`, and tells on stderr what is found, each finding once.

    An error of torch's gets its explanation as a note where it's raised, so it's there whoever catches it. The picture
    of what was found is written to `page`. Notes, which may be meant, aren't told. What long programs have left behind
    is forgotten by `record()` itself: the last laps are there.
    """

    running: ClassVar[ProgramWatch | None] = None

    def __init__(self, code: Code | None, page: Path | None) -> None:
        self._record = record(code=code, listener=self._heard)
        self._page, self._here = page, Path.cwd()
        self._laps = self._errors = 0
        self._told: set[tuple[str, object]] = set()
        self._ended = False

    def begin(self) -> None:
        """From here on; nothing where this process is watched already."""
        if ProgramWatch.running is None:
            ProgramWatch.running = self
            self._record.begin()
        else:
            self._ended = True

    def end(self, error: BaseException | None = None) -> None:
        """Until here; `error` ends the program and gets what is known of it as notes."""
        if self._ended:
            return
        self._ended, ProgramWatch.running = True, None
        self._record.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
        quietly(self._look, error)

    def _heard(self, error: BaseException | None) -> None:
        if error is not None:
            self._errors += 1
            if self._errors <= MOST_EXPLAINED:
                self._record.explain(error)
                self._look(error)
        else:
            self._laps += 1
            if self._laps in LOOKS:
                self._look(None)

    def _look(self, error: BaseException | None) -> None:
        found = self._record.recording
        new = [each for each in found.diagnoses if each.severity == "wrong" and self._is_new(each)]
        notes = getattr(error, "__notes__", ())
        explained = any(note.startswith("seegrad: ") for note in notes)
        for diagnosis in new:
            _say(f"seegrad: {heading(diagnosis, self._here)}\n    {diagnosis.message()}")
        if (new or explained) and (written := self._write(found)) is not None:
            said = _("seegrad: the picture is in {file}").format(file=written)
            if error is None or not explained:
                _say(said)
            elif said not in notes:
                error.add_note(said)

    def _is_new(self, diagnosis: Diagnosis) -> bool:
        what = (diagnosis.kind, diagnosis.culprit)
        is_new = what not in self._told
        self._told.add(what)
        return is_new

    def _write(self, recording: Recording) -> Path | None:
        """The page; None where it can't be written, or nobody has said where."""
        with contextlib.suppress(OSError):
            return write_page(recording, self._page) if self._page is not None else None
        return None


def watch_this(file: str) -> None:
    """Watch the running program until its end; `file` is the one that the picture shows."""
    watch = ProgramWatch(_source(file), page_of(file))
    before = sys.excepthook

    def last_words(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        watch.end(error)
        before(kind, error, error.__traceback__ if error.__traceback__ is not None else traceback)

    sys.excepthook = last_words
    with contextlib.suppress(RuntimeError):  # Python ends already: a late thread has imported it
        atexit.register(watch.end)
    watch.begin()


def page_of(file: str) -> Path:
    """Where the page of a program goes: the working folder, one for each process of a distributed run.

    >>> page_of("/work/code/train.py").name
    'train.seegrad.html'
    """
    rank = os.environ.get("RANK")
    return Path.cwd() / f"{Path(file).stem}{f'.rank{rank}' if rank else ''}.seegrad.html"


def _source(file: str) -> Code | None:
    try:
        return file, 1, Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):  # a cell, a frozen program
        return None


def _say(text: str) -> None:
    """On stderr, where there is one: no output of the program's own is touched."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{text}\n")
