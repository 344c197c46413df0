"""Run a program again with one line replaced, in a process of its own, and record it there.

A notebook is run again as the cells that were run so far, a script as a script. The process has a deadline, no input,
and nothing that it prints is kept; what it writes to disk it writes again.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from seegrad.learn.progress import VARIABLE
from seegrad.model.recording import Diagnosis, Mend, Place, Recording
from seegrad.recorder import load
from seegrad.words.errors import RecordingError
from seegrad.words.languages import _, counted, together

DEADLINE_S = 60.0
CELL = re.compile(r"In \[(\d+)\]")
CHILD = "seegrad.display.rerun.child"
GIVEN, RECORDED, SAID = "given.json", "recording.json", "said.txt"
"""Files in the folder that both processes share: what to run, what was recorded, why nothing was."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """What to run again. `cells` are those of a notebook with their numbers, else `file` is a script of text `text`.

    `wanted` is the block whose Recording is asked for: its file as a Place names it, and its first line.
    """

    folder: str
    wanted: tuple[str, int]
    cells: tuple[tuple[int, str], ...] = ()
    file: str = ""
    text: str = ""
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """Of `record`, those that were on: `check_nan`, `values`."""

    def run(self, deadline_s: float = DEADLINE_S) -> Recording:
        """The Recording of the same block. Raises: RecordingError where there is none, with the reason."""
        with tempfile.TemporaryDirectory() as shared:
            Path(shared, GIVEN).write_text(json.dumps(asdict(self)), encoding="utf-8", errors="surrogatepass")
            ended = _waited_for(self._started(shared), deadline_s)
            if Path(shared, RECORDED).exists():
                return load(Path(shared, RECORDED))
            if not ended:
                said = _stopped(round(deadline_s))
            elif Path(shared, SAID).exists():
                said = Path(shared, SAID).read_text(encoding="utf-8")
            else:
                said = _("The process ended before that block was recorded.")
        raise RecordingError(said)

    def _started(self, shared: str) -> subprocess.Popen[bytes]:
        own = {VARIABLE: str(Path(shared, "progress.json")), "MPLBACKEND": "agg"}
        nothing: Any = subprocess.DEVNULL
        return subprocess.Popen(  # noqa: S603  # the user's own program, by our own command
            [sys.executable, "-m", CHILD, shared],
            cwd=self.folder,
            env=os.environ | own,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            start_new_session=True,
        )


def _stopped(seconds: int) -> str:
    said = counted(
        "It didn't end within {seconds} second, and was stopped.",
        "It didn't end within {seconds} seconds, and was stopped.",
        seconds,
    )
    return said.format(seconds=seconds)


def _waited_for(process: subprocess.Popen[bytes], deadline_s: float) -> bool:
    """Did it end by itself? If not, it is ended, with all that it has started."""
    try:
        process.wait(deadline_s)
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
            process.wait()
    return True


def of_notebook(recording: Recording, mend: Mend, history: list[str], folder: str) -> Rerun | None:
    """The cells up to the one that holds the block, with the line replaced; None where the line is in none of them.

    `history` is IPython's: the text of each cell that was run, by its number, from number 1 on.
    """
    last, mended = CELL.fullmatch(recording.code_file), CELL.fullmatch(mend.place.file)
    if last is None or mended is None or not recording.code:
        return None
    cells = dict(enumerate(history[: int(last[1]) + 1]))
    text = replaced(cells.get(int(mended[1]), ""), mend)
    if text is None:
        return None
    cells[int(mended[1])] = text
    wanted = recording.code_file, recording.code[0][0]
    return Rerun(folder, wanted, tuple((number, cell) for number, cell in cells.items() if number and cell.strip()))


def outcome(before: Recording, mended: Diagnosis, after: Recording) -> str:
    """Does it run to its end, is what the line was to mend gone, and what is still found?"""
    return together(_ended(before, after), _left(mended, after))


def _ended(before: Recording, after: Recording) -> str:
    """What matters first, where an error ended one of the runs."""
    if after.error is not None and after.error.place is not None:
        said, error = _("With this line it ends by an error on line {line} ({kind})."), after.error
    elif before.error is not None and before.error.place is not None and after.error is None:
        error = before.error
        said = _(
            "As it is, the program ends on line {line} (`{code}`), which raises {kind}; with this line it comes to its "
            "end."
        )
    else:
        return ""
    place = cast(Place, error.place)
    return said.format(line=place.line, code=place.code.strip(), kind=error.kind)


def _left(mended: Diagnosis, after: Recording) -> str:
    if not after.diagnoses:
        return _("With this line nothing is found any more.")
    if any((each.kind, each.tensor) == (mended.kind, mended.tensor) for each in after.diagnoses):
        return _("With this line it is still found.")
    return counted(
        "With this line it isn't found any more; {count} other finding is left.",
        "With this line it isn't found any more; {count} other findings are left.",
        len(after.diagnoses),
    ).format(count=len(after.diagnoses))


def of_script(
    recording: Recording, mend: Mend, folder: str, arguments: Sequence[str], *, check_nan: bool
) -> Rerun | None:
    """A script that was run in that folder, with the line replaced; None where the line is in another file."""
    file = recording.code_file
    text = replaced("\n".join(line for _number, line in recording.code), mend) if mend.place.file == file else None
    options = ("check_nan",) if check_nan else ()
    return Rerun(folder, (file, 1), (), file, f"{text}\n", tuple(arguments), options) if text is not None else None


def replaced(text: str, mend: Mend) -> str | None:
    """A cell or a script with the line replaced, its indentation kept; None where it isn't there.

    Below `%%see` a cell's lines are counted from the next one.

    >>> from seegrad.model.recording import Place
    >>> replaced("%%see\\nx = 1\\nx += y\\n", Mend(Place("In [1]", 2, "x += y"), "x = x + y"))
    '%%see\\nx = 1\\nx = x + y\\n'
    """
    lines = text.split("\n")
    at = mend.place.line - 1
    near = (k for k in (at, at + 1) if k < len(lines) and lines[k].strip() == mend.place.code.strip())
    alike = [k for k, line in enumerate(lines) if line.strip() == mend.place.code.strip()]
    k = next(near, alike[0] if len(alike) == 1 else None)
    if k is None:
        return None
    lines[k] = lines[k][: len(lines[k]) - len(lines[k].lstrip())] + mend.line
    return "\n".join(lines)
