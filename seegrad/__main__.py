"""`python -m seegrad SCRIPT.py [args]`: run a script, then say what its gradients went through.

The script runs as it would alone: same `sys.argv`, same output, same traceback, same exit status. The diagnoses
follow on stdout, after the script's own output. `--html FILE` also writes the picture, interactive and offline.
"""

from __future__ import annotations

import argparse
import builtins
import sys
import traceback
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from .languages import _, counted, marked
from .model import Diagnosis, Recording
from .narrate import KINDS
from .places import is_users
from .recorder import record

SEVERITY = {"error": marked("error"), "wrong": marked("WRONG GRADIENT"), "note": marked("note")}


def main(arguments: list[str]) -> int:
    """Run the command; the script's own status, or 2 where the script can't be read."""
    options = parser().parse_args(arguments)
    script = Path(options.script).absolute()  # as Python names the script that it runs
    try:
        text = script.read_text(encoding="utf-8")
        code = compile(text, str(script), "exec", dont_inherit=True)
    except (OSError, UnicodeDecodeError) as error:
        print(_("seegrad: can't read {file}: {error}").format(file=options.script, error=error), file=sys.stderr)
        return 2
    except SyntaxError:
        traceback.print_exc(limit=0)
        return 1
    with acting_as(script, options.script, options.arguments):
        status, recording = run(code, str(script), text)
    report(recording)
    if options.html is not None:
        write_html(recording, options.html)
    return status


def parser() -> argparse.ArgumentParser:
    """The command line: our options come before the script, everything after it is the script's."""
    found = argparse.ArgumentParser(prog="python -m seegrad", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    found.add_argument("--html", metavar="FILE", type=Path, help="write the picture there, interactive and offline")
    found.add_argument("script", metavar="SCRIPT.py")
    found.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the script's own arguments")
    return found


class acting_as:  # noqa: N801  # a context manager that is used like a function
    """`sys.argv`, `sys.path[0]` and `__main__` as the script would find them alone."""

    def __init__(self, script: Path, name: str, arguments: list[str]) -> None:
        self._argv = [name, *arguments]
        self._folder = str(script.parent)
        self._module = ModuleType("__main__")
        self._module.__dict__.update(__file__=str(script), __builtins__=builtins)

    def __enter__(self) -> None:
        self._before = sys.argv, sys.path[:], sys.modules["__main__"]
        sys.argv, sys.modules["__main__"] = self._argv, self._module
        sys.path[:1] = [self._folder]

    def __exit__(self, *exception: object) -> None:
        # The script's module stays: what it leaves running at exit still looks for it there.
        sys.argv, sys.path[:], _ = self._before


def run(code: CodeType, name: str, text: str) -> tuple[int, Recording]:
    """Run the script under `record()`: its status and the Recording. An error prints its ordinary traceback."""
    rec = record(code=(name, 1, text))
    status = 0
    try:
        with rec:
            exec(code, sys.modules["__main__"].__dict__)  # noqa: S102  # running the user's script is what's asked
    except SystemExit as leaving:
        status = exit_status(leaving)
    except BaseException as error:  # whatever ends a script is shown as Python shows it
        status = 130 if isinstance(error, KeyboardInterrupt) else 1
        sys.stdout.flush()
        sys.excepthook(type(error), error.with_traceback(users_part(error)), error.__traceback__)
    sys.stdout.flush()
    return status, rec.recording


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
        return leaving.code
    print(leaving.code, file=sys.stderr)
    return 1


def report(recording: Recording) -> None:
    """Print the diagnoses."""
    found = recording.diagnoses
    backwards = len({frame.backward for frame in recording.frames if frame.backward is not None})
    findings = counted("{count} finding", "{count} findings", len(found)).format(count=len(found))
    calls = counted("{count} backward call", "{count} backward calls", backwards).format(count=backwards)
    print(_("\n── seegrad: {findings} in {calls} ──").format(findings=findings, calls=calls))
    for diagnosis in found:
        print(f"{heading(diagnosis)}\n    {diagnosis.message()}")
    sys.stdout.flush()


def heading(diagnosis: Diagnosis) -> str:
    """One line that names the culprit, as a compiler would."""
    place = diagnosis.culprit or diagnosis.victim
    where = f"{near(place.file)}:{place.line}: " if place else ""
    return f"{where}{_(SEVERITY[diagnosis.severity])}: {_(KINDS.get(diagnosis.kind, diagnosis.kind.replace('_', ' ')))}"


def near(file: str) -> str:
    """The path from here, where it lies below the working folder."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def write_html(recording: Recording, path: Path) -> None:
    """Write the picture; where that fails, say so: the script's status stays its own."""
    from .page import write_page

    try:
        write_page(recording, path)
    except OSError as error:
        print(_("seegrad: can't write {file}: {error}").format(file=path, error=error), file=sys.stderr)
    else:
        print(_("picture: {file}").format(file=path))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
