"""`record()`: capture, then diagnose, then say it."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from seegrad.capture.mode import Capture, Detail, Listener, quietly
from seegrad.capture.probes.places import Code, user_frame, without_us
from seegrad.capture.probes.variables import is_a
from seegrad.diagnose import diagnose, told_by
from seegrad.model.recording import Diagnosis, Frame, RaisedError, Recording
from seegrad.words.errors import RecordingError
from seegrad.words.languages import _

OVER: list[Callable[[Recording], None]] = []
"""Called with the Recording of each block that is over: for who runs a program of somebody else's."""


class record:  # noqa: N801  # a context manager that is used like a function
    """Record a block of torch code: its graph, its writes, its backward, and what went wrong.

    Nothing changes for the block: same values to the bit, same errors, same version checks. An error leaves the block
    as torch raised it, with the explanation added as a note.

    `detail="content"` also compares the bytes of every saved tensor: when it's saved and before a backward uses it, and
    at every event where someone outside torch holds the memory. It finds each write that torch can't see: by numpy, a
    raw pointer, a kernel. `code=(file, first_line, text)` gives the source to show where Python can't find it.
    `listener` is called with None after each backward call, and with each error that torch raises.

    Where a loss or a gradient on the CPU isn't finite, the line where the first NaN or infinity began is named by what
    the graph still holds. `check_nan=True` looks at the smallest and the largest number of every tensor and gradient:
    on any device, and where nothing is held any more.

    `check_functions=True` compares the backward of each custom Function with central differences on copies of what it
    was given, when the block is over: its forward runs again then, a few times.

    `values=True` keeps of each tensor and gradient that is bigger than 4×4 a Summary: smallest, largest, norm, how many
    are 0, NaN, infinite, and a heat strip; its numbers too, whole up to 4,096 elements, else a corner, together at most
    128 KiB: the oldest give way. `%%see` has it on.

    Raises RecordingError when it's entered twice, or asked for a Recording before it was entered.

    >>> import torch
    >>> a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> with record() as rec:
    ...     out = a.sigmoid()
    ...     out.data.zero_()
    ...     out.sum().backward()
    tensor([0., 0., 0.])
    >>> [(d.kind, d.severity, d.tensor) for d in rec.diagnoses]
    [('silent_corruption', 'wrong', 'out')]

    >>> w = torch.linspace(0, 1, 100).requires_grad_()
    >>> with record() as rec:
    ...     torch.where(w > 0, w.sqrt(), 0.0).sum().backward()
    >>> [(d.kind, d.node, dict(d.arguments)["cause"]) for d in rec.diagnoses]
    [('not_finite', 'SqrtBackward0', 'unused')]

    >>> with record(values=True) as rec:
    ...     ramp = torch.arange(-50, 51) / 50
    >>> rec.frames[-1].summaries[0][1].norm, rec.frames[-1].summaries[0][1].zeros
    ('5.86', 1)
    """

    def __init__(
        self,
        detail: Detail = "default",
        code: Code | None = None,
        *,
        check_nan: bool = False,
        check_functions: bool = False,
        values: bool = False,
        listener: Listener | None = None,
    ) -> None:
        if detail not in ("default", "content"):
            said = _('record(detail={detail}): it is "default" or "content".')
            raise RecordingError(said.format(detail=repr(detail)))
        self._detail: Detail = detail
        self._given = code
        self._check_nan, self._check_functions, self._listener = check_nan, check_functions, listener
        self._values = values
        self._capture: Capture | None = None
        self._recording: Recording | None = None
        self._error: RaisedError | None = None
        self._ended = False

    def __enter__(self) -> record:
        self._new().start(user_frame(sys._getframe(1)))
        return self

    def begin(self) -> None:
        """Record all that this thread does from here on, until `__exit__`: a program, not a block of it."""
        self._new().start(None, below=True)

    def _new(self) -> Capture:
        if self._capture is not None:
            raise RecordingError(_("This record() is running or was used already. Make a new one for each block."))
        self._capture = Capture(
            self._detail,
            self._given,
            check_nan=self._check_nan,
            check_functions=self._check_functions,
            values=self._values,
            listener=self._listener,
        )
        return self._capture

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del kind, traceback
        if self._capture is None:
            return
        if not self._ended:
            self.stop(error)
            if error is not None:
                self.explain(error)
        self._capture.leave()
        for call in OVER:
            call(self.recording)

    def stop(self, error: BaseException | None = None) -> None:
        """Record nothing more, though the block goes on; `error` is what ends it."""
        if self._capture is not None and not self._ended:
            self._error, self._ended = self._capture.stop(error), True

    def explain(self, error: BaseException) -> None:
        """Say in notes on an error what is known of it by now; the error's own text stays as it is."""
        quietly(_explain, error, self.recording)

    @property
    def recording(self) -> Recording:
        """What was seen; inside the block, what was seen so far. It's put together when it's first asked for."""
        if self._recording is not None:
            return self._recording
        if self._capture is None:
            raise RecordingError(
                _("Nothing is recorded yet: use `with seegrad.record() as rec:` and ask rec after it.")
            )
        found = _diagnosed(self.seen)
        if self._ended:
            self._recording = found
        return found

    @property
    def seen(self) -> Recording:
        """The Recording without its diagnoses, for who draws the graph alone: nothing is looked for."""
        if self._recording is not None or self._capture is None:
            return replace(self.recording, diagnoses=())
        return quietly(self._capture.recording, self._error) or Recording(error=self._error)

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """What went wrong, most important first."""
        return self.recording.diagnoses

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The state after each event."""
        return self.recording.frames

    @property
    def error(self) -> RaisedError | None:
        """The error that left the block."""
        return self.recording.error

    def to_json(self) -> str:
        """The Recording as JSON."""
        return self.recording.to_json()

    def save(self, path: str | Path) -> Path:
        """Write the Recording to a file that `load` opens again. Raises: OSError when it can't be written."""
        return save(self.recording, path)

    def __repr__(self) -> str:
        if not self._ended:
            return "<seegrad.record, running>" if self._capture is not None else "<seegrad.record, not entered>"
        found = self.recording
        return f"<seegrad.record, frames: {len(found.frames)}, diagnoses: {len(found.diagnoses)}>"


class FirstSteps:
    """Ends what a `record()` sees after so many optimiser steps, or so many backward calls where no optimiser is.

    The program goes on. `listener` is the one that its `record()` has to have.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._steps = self._calls = 0
        self._thread = threading.get_ident()
        self.over = False

    @contextlib.contextmanager
    def of(self, recorder: record) -> Iterator[None]:
        """It records already: of a step it's told first."""
        self._recorder = recorder
        with contextlib.ExitStack() as ends:
            if self._most is not None:
                ends.callback(register_optimizer_step_post_hook(self._stepped).remove)
            yield

    def listener(self, error: BaseException | None) -> None:
        """A backward call is over."""
        self._calls += error is None
        if self._calls == self._most and not any(is_a(each, Optimizer) for each in gc.get_objects()):
            self._end()

    def _stepped(self, *_: Any) -> None:
        self._steps += threading.get_ident() == self._thread
        if self._steps == self._most:
            self._end()

    def _end(self) -> None:
        if not self.over:
            self.over = True
            self._recorder.stop()


def save(recording: Recording, path: str | Path) -> Path:
    """Write a Recording to a file that `load` opens again. Raises: OSError when it can't be written."""
    target = Path(path)
    target.write_text(recording.to_json(), encoding="utf-8", errors="surrogatepass")  # names may hold half a character
    return target


def load(path: str | Path) -> Recording:
    """The Recording that `save` wrote: to be shown, compared, asked for its findings, without its program.

    Raises: OSError when it can't be read, RecordingError when it isn't a Recording.

    >>> import tempfile
    >>> with record() as rec:
    ...     pass
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(rec.save(f"{folder}/a.json")) == rec.recording
    True
    """
    try:
        return Recording.from_json(Path(path).read_text(encoding="utf-8", errors="surrogatepass"))
    except UnicodeDecodeError as error:
        raise RecordingError(_("This isn't a Recording: it isn't text ({error}).").format(error=error)) from error


def _diagnosed(recording: Recording) -> Recording:
    """A rule that breaks is said in the log, and costs nothing but its own findings."""
    found = quietly(diagnose, recording, lambda find, seen: quietly(told_by, find, seen) or ())
    return recording if found is None else replace(recording, diagnoses=found)


def _explain(error: BaseException, recording: Recording) -> None:
    """Leave `str(error)` as it is; say who did it in a note."""
    without_us(error)
    at = recording.error or next(reversed(recording.errors), None)  # none has left the block while it runs
    for diagnosis in recording.diagnoses:
        note = f"seegrad: {diagnosis.message()}"
        told = note in getattr(error, "__notes__", ())  # by a record() inside this one, or when it was raised
        if diagnosis.raised and at and diagnosis.frame == at.frame and not told:
            error.add_note(note)
