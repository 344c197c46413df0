"""`python -m seegrad SCRIPT.py [args]`: run a script, then say what its gradients went through.

The script runs as it would alone: same `sys.argv`, same output, same traceback, same exit status. The diagnoses
follow on stdout, after the script's own output. `--html FILE` also writes the picture, interactive and offline,
`--json FILE` what was found, for programs to read (`-`: to stdout, where nothing else of ours is then said),
`--save FILE` all that was recorded, for `seegrad.load`. A file that can't be written is told before the script starts.
`--try-fix FILE` runs the script again with the line that mends the first finding, in a process of its own, and writes
both pictures. Each tensor is looked at, so that the line where the first NaN or infinity began is named. `--auto` says
nothing unless something goes wrong, then at once, and looks at each tensor beside `--check-nan` alone. `--steps N`
records the first steps alone; the program goes on. `-m MODULE [args]` runs a module of a package instead, as Python's
own `-m` does.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import platform
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

from seegrad.capture.probes.places import is_users
from seegrad.display.findings import as_json, heading, near
from seegrad.display.page import write_page
from seegrad.display.rerun import DEADLINE_S, of_script, outcome
from seegrad.display.script import Program, acting_as, module, script
from seegrad.display.watch import ProgramWatch, page_of
from seegrad.model.recording import Recording
from seegrad.recorder import FirstSteps, record, save
from seegrad.words.errors import RecordingError
from seegrad.words.languages import _, counted

SLOWER = 3
"""How much longer than the first run the second may take."""

WITH_VALUE, ALONE = ("--html", "--json", "--save", "--try-fix", "--steps"), ("--check-nan", "--auto")
"""Our options, as they may stand among the script's arguments."""

PROGRAMS = (".py", ".pyw", ".ipynb")
"""What nobody means to be written over: a forgotten file name makes the script an option's."""

INTERRUPTED = -signal.SIGINT
"""In place of a status: Ctrl-C has ended the script, and Python ends by the signal itself then."""

STDOUT = Path("-")
"""In place of a file: what is to be read by a program goes there, and what is said to a person to stderr."""


def main(arguments: list[str]) -> int:
    """Run the command; the script's own status, or 2 where it can't be read, or what is asked for not be written."""
    options, here = parser().parse_args(arguments), Path.cwd()
    if options.auto and (options.html or options.json or options.save or options.try_fix):
        parser().error(_("--auto writes its picture where something goes wrong: no --html, --json or --save beside it"))
    if options.steps is not None and options.steps < 1:
        parser().error(_("--steps is a number from 1 on"))
    if options.steps is not None and (options.auto or options.try_fix):
        parser().error(_("--steps leaves steps unrecorded that --auto and --try-fix need: give one or the other"))
    for path in (options.html, options.json, options.save, options.try_fix):
        if path is not None and (error := unwritable(path, options.program)) is not None:
            cannot_write(path, error)
            return 2
    try:
        program = module(options.program) if options.module else script(options.program)
    except (OSError, ImportError, UnicodeDecodeError) as error:
        print(_("seegrad: can't read {file}: {error}").format(file=options.program, error=error), file=sys.stderr)
        return 2
    except SyntaxError:
        traceback.print_exc(limit=0)
        return 1
    with acting_as(program, options.arguments):
        if options.auto:
            return watched(program, check_nan=options.check_nan)
        began = time.monotonic()
        first = FirstSteps(options.steps)
        status, recording = run(program, first)
        took_s = time.monotonic() - began
    with perhaps_unheard():
        with contextlib.redirect_stdout(sys.stderr if options.json == STDOUT else sys.stdout):
            # A script that refuses its arguments gives nothing to tell of.
            if recording.tensors or recording.diagnoses or not status:
                report(recording, here)
                if first.over:
                    print(only(options.steps))
            keep(recording, program, options, here, took_s)
            tell_misplaced(arguments, options, program)
        if options.json == STDOUT:
            print(as_json(recording), end="")
    return status


def keep(recording: Recording, program: Program, options: argparse.Namespace, here: Path, took_s: float) -> None:
    """Write the files that were asked for."""
    if options.save is not None:
        write(options.save, here, lambda path: save(recording, path))
    if options.html is not None:
        write(options.html, here, lambda path: write_page(recording, path, Path(program.file).name))
    if options.json not in (None, STDOUT):
        write(options.json, here, lambda path: path.write_text(as_json(recording), encoding="utf-8"))
    if options.try_fix is not None:
        try_fix(recording, options, here, took_s)


def tell_misplaced(arguments: list[str], options: argparse.Namespace, program: Program) -> None:
    """Say which options of ours the script was given, since they stand after it, and the command that means them."""
    found, rest = misplaced(options.arguments, program.text)
    ours = arguments[: len(arguments) - len(options.arguments)]
    if found and ours[-1] != "--":  # which argparse takes out where it follows the script at once
        said = _("seegrad: {options} stands after {script}, so the script was given it. For seegrad: {command}")
        command = shlex.join(["python", "-m", "seegrad", *found, *ours, *rest])
        print(said.format(options=shlex.join(found), script=options.program, command=command))


def misplaced(given: list[str], text: str) -> tuple[list[str], list[str]]:
    """What in a script's arguments looks like ours, and the rest.

    What its text names is the script's own, and so is all after `--`.

    >>> misplaced(["-x", "--html", "page.html", "--save=a", "--", "--auto"], "parser.add_argument('--save')")
    (['--html', 'page.html'], ['-x', '--save=a', '--', '--auto'])
    """
    found: list[str] = []
    rest: list[str] = []
    left = list(given)
    while left and left[0] != "--":
        name, has_value, _value = left[0].partition("=")
        is_ours = name in (*WITH_VALUE, *ALONE) and name not in text
        count = 2 if is_ours and name in WITH_VALUE and not has_value else 1
        (found if is_ours else rest).extend(left[:count])
        del left[:count]
    return found, rest + left


def parser() -> argparse.ArgumentParser:
    """The command line: our options come before the script, everything after it is the script's."""
    found = argparse.ArgumentParser(
        prog="python -m seegrad",
        description=_("Run a script, then say what its gradients went through."),
        formatter_class=InWords,
        add_help=False,
    )
    run = found.add_argument_group(_("what to run"))
    run.add_argument("-m", dest="module", action="store_true", help=_("what follows is a module, not a file"))
    run.add_argument("program", metavar="SCRIPT.py")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help=_("the script's own arguments"))
    option = found.add_argument_group(_("options")).add_argument
    option("--html", metavar="FILE", type=Path, help=_("write the picture there, interactive and offline"))
    option("--json", metavar="FILE", type=Path, help=_("write what was found there, as JSON; -: stdout"))
    option("--save", metavar="FILE", type=Path, help=_("write the recording there, for seegrad.load"))
    option("--try-fix", metavar="FILE", type=Path, help=_("run it again with the fix, and write both pictures there"))
    option("--steps", metavar="N", type=int, help=_("record the first N steps of optimisers; the script goes on"))
    option("--check-nan", action="store_true", help=_("beside --auto: find where the first NaN or infinity began"))
    option("--auto", action="store_true", help=_("say nothing unless something goes wrong"))
    option("-h", "--help", action="help", help=_("say this, and do nothing else"))
    option("--version", action="version", version=versions(), help=_("say which version this is"))
    return found


class InWords(argparse.HelpFormatter):
    """The one word of a help that argparse alone says, in the reader's language."""

    def add_usage(self, usage: str | None, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """Said before the command."""
        super().add_usage(usage, actions, groups, prefix or _("usage: "))


def versions() -> str:
    """Ours and torch's, which decide together what can be found.

    >>> versions()  # doctest: +ELLIPSIS
    'seegrad 0..., torch 2..., Python 3...'
    """
    packages = ", ".join(f"{each} {version_of(each)}" for each in ("seegrad", "torch"))
    return f"{packages}, Python {platform.python_version()}"


def version_of(package: str) -> str:
    """As it was installed; `?` for one that only lies on the path.

    >>> version_of("no such package")
    '?'
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "?"


@contextlib.contextmanager
def perhaps_unheard() -> Iterator[None]:
    """Stdout may be closed by now, by the script or by who reads it (`… | head`): then what is printed is lost."""
    try:
        yield
        if sys.stdout is not None:  # as where a shell has closed it: `>&-`
            sys.stdout.flush()
    except OSError as error:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1
        )  # Python's own advice
        if not isinstance(error, BrokenPipeError):  # a full disk, that is
            cannot_write(Path("stdout"), error)
    except ValueError:
        if not sys.stdout.closed:
            raise


def run(program: Program, first: FirstSteps) -> tuple[int, Recording]:
    """Run the script under `record()`: its status and the Recording. An error prints its ordinary traceback.

    Who runs a program like this wants to know, and a number that isn't finite can't be found afterwards.
    """
    rec = record(code=(program.file, 1, program.text), check_nan=True, listener=first.listener)
    try:
        with rec, first.of(rec):
            execute(program)
    except BaseException as error:  # whatever ends a script is shown as Python shows it
        told_once(error, rec.recording)
        return ended_by(error), rec.recording
    return 0, rec.recording


def told_once(error: BaseException, recording: Recording) -> None:
    """Leave out of an error's notes what the report below its traceback tells: the traceback is the script's own."""
    told = {f"seegrad: {diagnosis.message()}" for diagnosis in recording.diagnoses}
    if told.intersection(notes := getattr(error, "__notes__", ())):
        error.__notes__ = [note for note in notes if note not in told]


def watched(program: Program, *, check_nan: bool = False) -> int:
    """Run the script watched: its status. Nothing is said but what went wrong, beside the picture of it."""
    watch = ProgramWatch((program.file, 1, program.text), page_of(program.file), check_nan=check_nan)
    watch.begin()
    try:
        execute(program)
    except BaseException as error:  # as in `run`
        watch.end(error)
        return ended_by(error)
    watch.end()
    return 0


def execute(program: Program) -> None:
    """In the module that acts as `__main__`."""
    exec(program.code, sys.modules["__main__"].__dict__)  # noqa: S102  # running the user's script is what's asked


def ended_by(error: BaseException) -> int:
    """The status of a script that this has ended; the traceback is printed as Python would."""
    if isinstance(error, SystemExit):
        return exit_status(error)
    with perhaps_unheard():
        pass  # what the script has printed comes first: the way out flushes it
    sys.excepthook(type(error), error.with_traceback(users_part(error)), error.__traceback__)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def users_part(error: BaseException) -> TracebackType | None:
    """The traceback from the script's own first line on."""
    step = error.__traceback__
    while step is not None and not is_users(step.tb_frame.f_code.co_filename):
        step = step.tb_next
    return step


def exit_status(leaving: SystemExit) -> int:
    """What Python would exit with."""
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    print(leaving.code, file=sys.stderr)
    return 1


def report(recording: Recording, here: Path) -> None:
    """Print the diagnoses; files by their path from the folder `here`, where the command began."""
    found = recording.diagnoses
    backwards = 1 + max((frame.backward for frame in recording.frames if frame.backward is not None), default=-1)
    findings = counted("{count} finding", "{count} findings", len(found)).format(count=len(found))
    calls = counted("{count} backward call", "{count} backward calls", backwards).format(count=backwards)
    print(_("\n── seegrad: {findings} in {calls} ──").format(findings=findings, calls=calls))
    for diagnosis in found:
        print(f"{heading(diagnosis, here)}\n    {diagnosis.message()}")


def only(steps: int) -> str:
    """What is said where the program went on.

    >>> only(20)
    'seegrad: the first 20 steps were recorded; what came after them ran unrecorded.'
    """
    said = counted(
        "seegrad: the first step was recorded; what came after it ran unrecorded.",
        "seegrad: the first {count} steps were recorded; what came after them ran unrecorded.",
        steps,
    )
    return said.format(count=steps)


def try_fix(recording: Recording, options: argparse.Namespace, here: Path, took_s: float) -> None:
    """Run the script again with the line that mends the first of the worst findings that has one; say the rest."""
    from seegrad.display.widget import fix_page  # brings Jupyter's widgets along

    worst = {each.severity for each in recording.diagnoses[:1]}  # beside an error a note's mend would mend nothing
    mended = next((each for each in recording.diagnoses if each.mend and each.severity in worst), None)
    rerun = None
    if mended is not None and mended.mend is not None and not options.module:
        rerun = of_script(recording, mended.mend, str(here), options.arguments, check_nan=True)
    if mended is None or mended.mend is None or rerun is None:
        if not recording.diagnoses:
            print(_("seegrad: nothing was found, so there is nothing to try."))
            return
        print(_("seegrad: no line is known that could be tried for what is worst here, so nothing was tried."))
        by_hand = _(
            "seegrad: {file} isn't written. What a finding says is to be done by hand, then the script run again."
        )
        print(by_hand.format(file=options.try_fix))
        return
    place = mended.mend.place
    print(f"{near(place.file, here)}:{place.line}:\n  - {place.code}\n  + {mended.mend.line}", flush=True)
    try:
        after = rerun.run(DEADLINE_S + SLOWER * took_s)
    except RecordingError as error:
        print(_("seegrad: {error}").format(error=error), file=sys.stderr)
        return
    print(outcome(recording, mended, after))
    write(options.try_fix, here, lambda path: fix_page(recording, mended, after, path, Path(place.file).name))


def unwritable(path: Path, program: str = "") -> OSError | None:
    """What writing this file would end in, as far as that is known before; a program is never written over.

    >>> unwritable(Path("no/such/page.html")), unwritable(STDOUT)
    (FileNotFoundError(2, 'No such file or directory'), None)
    >>> print(unwritable(Path("train.py")))
    it's the name of a program, which would be lost
    """
    if path.suffix in PROGRAMS or (path.exists() and Path(program).exists() and path.samefile(program)):
        return OSError(_("it's the name of a program, which would be lost"))
    if path == STDOUT or (path.exists() and not path.is_dir() and os.access(path, os.W_OK)):
        return None
    folder = path.absolute().parent
    if path.is_dir():
        why = errno.EISDIR
    elif not folder.exists():
        why = errno.ENOENT
    elif not folder.is_dir():
        why = errno.ENOTDIR
    else:
        why = 0 if os.access(folder, os.W_OK) and not path.exists() else errno.EACCES
    return OSError(why, os.strerror(why)) if why else None


def cannot_write(path: Path, error: OSError) -> None:
    """One sentence, on stderr."""
    print(_("seegrad: can't write {file}: {error}").format(file=path, error=error), file=sys.stderr)


def write(path: Path, here: Path, writing: Callable[[Path], object]) -> None:
    """Write a file, by its path from `here`; where that fails, say so: the script's status stays its own."""
    try:
        writing(here / path)
    except OSError as error:
        cannot_write(path, error)
    else:
        print(_("written: {file}").format(file=path))


def command() -> int:
    """`seegrad SCRIPT.py`, which is installed with the package."""
    status = main(sys.argv[1:])
    if status == INTERRUPTED:
        sys.excepthook = lambda *_: None  # its traceback has been printed
        raise KeyboardInterrupt  # so Python ends by the signal, and a shell's loop with it
    return status


if __name__ == "__main__":
    sys.exit(command())
