"""What runs a program again, in a process of its own: `python -m seegrad.display.rerun.child FOLDER`.

The folder holds what to run; the Recording of the block that is asked for is written into it, else why there is none.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from seegrad.display.rerun import GIVEN, RECORDED, SAID
from seegrad.display.script import acting_as, script
from seegrad.model.recording import Recording
from seegrad.recorder import OVER, record, save
from seegrad.words.languages import _


def main(shared: str) -> None:
    """Run what the folder holds, and write there what was recorded."""
    given = json.loads(Path(shared, GIVEN).read_text(encoding="utf-8", errors="surrogatepass"))
    wanted = given["wanted"]
    found: list[Recording] = []

    def over(recording: Recording) -> None:
        if recording.code and [recording.code_file, recording.code[0][0]] == wanted:
            found.append(recording)

    OVER.append(over)
    try:
        (run_cells if given["cells"] else run_script)(given)
    finally:
        if found:
            kept = Path(shared, RECORDED)
            save(found[-1], kept.with_suffix(".part"))
            kept.with_suffix(".part").replace(kept)  # whole or not at all: its reader doesn't wait for long
        else:
            said = _("Run again, that block wasn't reached.")
            Path(shared, SAID).write_text(said, encoding="utf-8")


def run_cells(given: dict[str, Any]) -> None:
    """Each cell under its own number, in one shell that keeps no history; what a cell raises ends that cell alone."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    quiet = Config()
    quiet.HistoryManager.enabled = False
    shell: Any = InteractiveShell.instance(config=quiet)
    for number, text in given["cells"]:
        shell.execution_count = number
        shell.run_cell(text, store_history=True)


def run_script(given: dict[str, Any]) -> None:
    """As `python -m seegrad` runs it; its error, or that it leaves, is part of what was recorded."""
    program = script(given["file"])
    code = compile(given["text"], program.file, "exec", dont_inherit=True)
    program = replace(program, text=given["text"], code=code)
    options = dict.fromkeys(given["options"], True)
    recording: Callable[..., record] = record
    with (
        acting_as(program, given["arguments"]),
        contextlib.suppress(BaseException),
        recording(code=(program.file, 1, program.text), **options),
    ):
        exec(program.code, sys.modules["__main__"].__dict__)  # noqa: S102  # the user's own script


if __name__ == "__main__":
    main(sys.argv[1])
