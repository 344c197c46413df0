"""A program watched from a line of it on, or the training that a framework runs: silent, until something is found."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import inspect
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from seegrad.capture.mode import quietly
from seegrad.capture.probes.places import Code
from seegrad.display.findings import brief, heading, near
from seegrad.display.page import write_page
from seegrad.model.recording import Diagnosis, Recording
from seegrad.recorder import record
from seegrad.words.errors import SeegradError
from seegrad.words.languages import _, counted

LOOKS = (3, 30, 300, 3_000)
"""The backward calls after which the program is looked at while it runs, so that a long one needn't end first."""

MOST_NOTED = 3
"""Notes that are told by their first clause where a program ends, before all are counted."""

MOST_EXPLAINED = 10
"""Errors of torch's that are explained where they're raised: a program may raise and catch them by the thousand."""


class ProgramWatch:
    """Records this thread from `begin` to `end`, and tells on stderr what is found, each finding once.

    An error of torch's gets its explanation as a note where it's raised, so it's there whoever catches it. The picture
    of what was found is written to `page`. Notes, which may be meant, are counted at the end, and nothing in `told` is
    told. What long programs have left behind is forgotten by `record()` itself: the last laps are there.
    """

    running: ClassVar[ProgramWatch | None] = None

    def __init__(
        self,
        code: Code | None,
        page: Path | None,
        told: set[tuple[str, object]] | None = None,
        *,
        check_nan: bool = False,
    ) -> None:
        self._record = record(code=code, check_nan=check_nan, listener=self._heard)
        self._page, self._here = page, Path.cwd()
        self._title = Path(code[0]).name if code else None
        self._command = _command(self._here) if code else ""  # at its end `__main__` has no file any more
        self._laps = self._errors = 0
        self._told = set() if told is None else told
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
        quietly(self._count)

    def _count(self) -> None:
        """The first notes, in brief, and how many a run of the command would tell: nothing wrong follows from them."""
        found = [each for each in self._record.recording.diagnoses if each.severity == "note"]
        if not found or not self._command:
            return
        for each in found[:MOST_NOTED]:
            _say(f"seegrad: {brief(each, self._here)}")
        notes = counted("{count} note, which may be meant", "{count} notes, which may be meant", len(found))
        _say(_("seegrad: {notes}: {command}").format(notes=notes.format(count=len(found)), command=self._command))

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
            return write_page(recording, self._page, self._title) if self._page is not None else None
        return None


def _command(here: Path) -> str:
    """What tells all that is found in the program that runs, to be copied into a shell; its arguments are part of it.

    Empty where the program is neither a file nor a module.
    """
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is None and not file:
        return ""
    program = ["-m", spec.name.removesuffix(".__main__")] if spec else [near(str(Path(str(file)).absolute()), here)]
    return shlex.join(["python", "-m", "seegrad", *program, *sys.argv[1:]])


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


class WatchedSteps:
    """One step in `every` of a training, recorded by itself; with 1 all of it, so that what spans steps is seen too.

    Raises: SeegradError for an `every` below 1.
    """

    newest: ClassVar[WatchedSteps | None] = None  # a framework that tells nobody of an error leaves it running

    def __init__(self, every: int) -> None:
        if every < 1:
            raise SeegradError(_("every={every}: record one step in 1, 2, 3, …").format(every=every))
        self._every = every
        self._watch: ProgramWatch | None = None

    def start(self, folder: str, rank: int, ranks: int) -> None:
        """A training begins; its picture will be in this folder."""
        if WatchedSteps.newest is not None:
            WatchedSteps.newest.end()
        WatchedSteps.newest = self
        self._page = Path(folder) / (f"training.rank{rank}.seegrad.html" if ranks > 1 else "training.seegrad.html")
        self._told: set[tuple[str, object]] = set()

    def before(self, step: int) -> bool:
        """A step begins. Is it recorded?"""
        if self._watch is None and step % self._every == 0:
            self._watch = ProgramWatch(None, self._page, self._told)
            self._watch.begin()
        return self._watch is not None

    def after(self) -> None:
        """A step is over."""
        if self._every > 1:
            self.end()

    def end(self, error: BaseException | None = None) -> None:
        """The training is over; `error` has ended it."""
        if self._watch is not None:
            self._watch.end(error)
        self._watch = None


class _LightningSteps:
    """Lightning's events. A step that fails unrecorded is run once more, recorded: its batch is still known."""

    def __init__(self, steps: WatchedSteps) -> None:
        self._steps = steps
        self._unseen: tuple[Any, ...] = ()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        del pl_module
        self._steps.start(trainer.default_root_dir, trainer.global_rank, trainer.world_size)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        del trainer, pl_module
        self._unseen = () if self._steps.before(batch_idx) else (batch, batch_idx)

    def on_train_batch_end(self, *told: Any) -> None:
        del told
        self._unseen = ()
        self._steps.after()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        del trainer, pl_module
        self._steps.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._steps.end(exception)
        if self._unseen and pl_module.automatic_optimization and isinstance(exception, RuntimeError):
            with contextlib.suppress(Exception):  # it explains an error, and must not put another in its place
                _explain_again(trainer, pl_module, self._unseen, exception)
        self._unseen = ()


def _explain_again(trainer: Any, module: Any, given: tuple[Any, ...], error: BaseException) -> None:
    """The step that has failed, recorded; what is known of its error becomes a note of `error`."""
    takes = len(inspect.signature(module.training_step).parameters)
    try:
        with _without_a_log(module), record():
            made = trainer.strategy.training_step(*given[:takes])
            (made["loss"] if isinstance(made, dict) else made).backward()
    except RuntimeError as same:
        for note in getattr(same, "__notes__", ()):
            error.add_note(note)


@contextlib.contextmanager
def _without_a_log(module: Any) -> Iterator[None]:
    """Lightning takes no numbers between two steps."""
    names = ("log", "log_dict")
    for name in names:
        setattr(module, name, _nothing)
    try:
        yield
    finally:
        for name in names:
            delattr(module, name)


def _nothing(*given: Any, **named: Any) -> None:
    del given, named


class _TrainerSteps:
    """Hugging Face's events; none of them tells of an error."""

    def __init__(self, steps: WatchedSteps) -> None:
        self._steps = steps

    def on_train_begin(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        del state, control, known
        self._steps.start(args.output_dir, args.process_index, args.world_size)

    def on_step_begin(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        del args, control, known
        self._steps.before(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        del args, state, control, known
        self._steps.after()

    def on_train_end(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        del args, state, control, known
        self._steps.end()


def lightning_callback(every: int = 1) -> Any:
    """For `lightning.Trainer(callbacks=[…])`: names the line that spoils a gradient while Lightning trains.

    One step in `every` is recorded, and the step that fails. With 1, the whole training is: what spans steps, such as
    gradients that are never cleared, is seen then too. The picture is written to `training.seegrad.html` in the
    Trainer's `default_root_dir`. Source of its events: `lightning.pytorch.Callback`.

    Raises: SeegradError for an `every` below 1; ModuleNotFoundError where Lightning isn't installed.

    >>> lightning_callback(every=0)
    Traceback (most recent call last):
    seegrad.words.errors.SeegradError: every=0: record one step in 1, 2, 3, …
    """
    steps = WatchedSteps(every)
    package = "pytorch_lightning" if "pytorch_lightning" in sys.modules else "lightning.pytorch"  # each knows its own
    return type("SeegradCallback", (_LightningSteps, importlib.import_module(package).Callback), {})(steps)


def trainer_callback(every: int = 1) -> Any:
    """For `transformers.Trainer(callbacks=[…])`: names the line that spoils a gradient while the Trainer trains.

    One optimiser's step in `every` is recorded, with all its micro-batches; with 1, the whole training. The picture is
    written to `training.seegrad.html` in `output_dir`. A Trainer tells its callbacks nothing of an error: only a step
    that is recorded has it explained. Source of its events: `transformers.TrainerCallback`.

    Raises: SeegradError for an `every` below 1; ModuleNotFoundError where transformers isn't installed.

    >>> trainer_callback(every=0)
    Traceback (most recent call last):
    seegrad.words.errors.SeegradError: every=0: record one step in 1, 2, 3, …
    """
    steps = WatchedSteps(every)
    return type("SeegradCallback", (_TrainerSteps, importlib.import_module("transformers").TrainerCallback), {})(steps)
