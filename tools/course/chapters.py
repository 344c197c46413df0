"""Run a chapter and keep what a reader without a kernel should see: the same bytes on every run.

The picture stays as text/html and text/plain. The widget-view entry goes, because a clone has no model for it and
Jupyter would show an error in the picture's place. Of a traceback the frames in the learner's own cells stay.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from tools.course.masters import BookError, Master, read_notebook, to_notebook

CELL_TIMEOUT_S = 60
RAISES = "raises-exception"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
ENVIRONMENT = {  # CPU, the same order of sets: nothing that differs between two runs
    "CUDA_VISIBLE_DEVICES": "",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "SEEGRAD_RAISE_OWN_ERRORS": "1",  # no chapter is stored with a picture that couldn't be drawn
}
LEARNER = ("JPY_SESSION_NAME", "SEEGRAD_PROGRESS")  # whose map of the course a chapter would draw
ANSI = re.compile(r"\x1b\[[0-9;]*m")
LIBRARIES = re.compile(r"File |.*`%tb`")
"""In a traceback: a call inside of a library, or that such calls are left out."""


def executed(master: Master, folder: Path, lang: str = "en") -> Any:
    """The chapter as a notebook with outputs, run from top to bottom in `folder`, where the pictures speak `lang`.

    Raises BookError, with the master's line, for a cell that raises and isn't tagged for it, that is tagged and
    doesn't raise, that writes to stderr, or that takes longer than a minute.
    """
    book = to_notebook(master)
    client = NotebookClient(
        book,
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],  # ipykernel would warn of TCP on our own stderr
        resources={"metadata": {"path": str(folder)}},
    )
    with _environment(lang):
        _run(client, master)
    for line, cell in zip(master.cells, book.cells, strict=True):
        if cell.cell_type == "code":
            _check_outputs(master.path, line.line, cell)
            cell.outputs = [_lasting(output) for output in cell.outputs]
    book.metadata.pop("widgets", None)
    book.metadata["language_info"] = to_notebook(master).metadata["language_info"]  # without the patch version
    return book


def as_stored(master: Master, made: Path) -> Any:
    """The chapter as a notebook with the outputs that `made` holds, where it has the same cells; nothing is run."""
    book = to_notebook(master)
    stored = {cell.id: cell for cell in read_notebook(made).cells} if made.exists() else {}
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, 1):
        cell.execution_count, cell.outputs = number, stored.get(cell.id, cell).get("outputs", [])
    return book


def _run(client: NotebookClient, master: Master) -> None:
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        line = _line_reached(client, master)
        raise BookError(f"{master.path}:{line}: the chapter doesn't run through. {ANSI.sub('', str(error))}") from error


def _line_reached(client: NotebookClient, master: Master) -> int:
    """The master's line of the cell that was running: the one after the last with an execution count."""
    for cell, made in zip(master.cells, client.nb.cells, strict=True):
        if cell.cell_type == "code" and (made.execution_count is None or _error(made)) and RAISES not in cell.tags:
            return cell.line
    return 1


def _error(cell: Any) -> Any:
    return next((output for output in cell.outputs if output.output_type == "error"), None)


def _check_outputs(path: Path, line: int, cell: Any) -> None:
    if RAISES in cell.metadata.get("tags", ()) and _error(cell) is None:
        raise BookError(f'{path}:{line}: tagged "{RAISES}", but it didn\'t raise. Remove the tag or mend the cell.')
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stderr":
            raise BookError(f"{path}:{line}: writes to stderr: {output.text.strip()!r}. Mend the cell's cause of it.")


def _lasting(output: Any) -> Any:
    """An output without what dies with its kernel: the widget's view, paths of this machine in a traceback."""
    if "data" in output:
        output.data.pop(WIDGET_VIEW, None)
    if output.output_type == "error":
        output.traceback = [each for each in output.traceback if not LIBRARIES.match(ANSI.sub("", each))]
    return output


@contextlib.contextmanager
def _environment(lang: str) -> Iterator[None]:
    """ENVIRONMENT and the language for the kernel that is about to start; ours is put back."""
    before = dict(os.environ)
    os.environ.update(ENVIRONMENT, SEEGRAD_LANG=lang)
    for variable in LEARNER:
        os.environ.pop(variable, None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
