"""From a Python frame to a Place: which line of the user's code is running, and what it says."""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
import sysconfig
import textwrap
from functools import lru_cache
from pathlib import Path
from types import FrameType

import torch

from seegrad.capture.probes.caller import STAND_IN
from seegrad.model.recording import Place

Code = tuple[str, int, str]
"""Source given by hand: the file name its code objects carry, the number of its first line, its text."""

MAX_DEPTH = 32
"""User frames that are searched for a tensor's name, from the innermost outwards."""

CELL = re.compile(r"In\[(\d+)\]")

_TORCH = f"{Path(torch.__file__).parent}{os.sep}"
_OURS = f"{Path(__file__).parents[2]}{os.sep}"
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep


@lru_cache(maxsize=4096)
def is_users(file: str) -> bool:
    """True for a file that is neither torch's, nor ours, nor Python's own library."""
    path = str(Path(file).absolute())
    if path.startswith((_TORCH, _OURS)) or file.startswith("<frozen"):
        return False
    return "site-packages" in path or not path.startswith(_STANDARD)


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's code, from `frame` outwards."""
    while frame is not None and (not is_users(frame.f_code.co_filename) or frame.f_code.co_name == STAND_IN):
        frame = frame.f_back
    return frame


def user_frames(frame: FrameType | None, block: FrameType | None) -> list[FrameType]:
    """The frames of the user's code from the one that holds the block, first, down to `frame`."""
    found: list[FrameType] = []
    while (frame := user_frame(frame)) is not None and len(found) < MAX_DEPTH:
        found.append(frame)
        if frame is block:
            break
        frame = frame.f_back
    return found[::-1]


def display_file(file: str) -> str:
    """`In [3]` for a notebook cell, the path as Python has it otherwise.

    IPython's compiler knows which cell a file name stands for; it's found through `sys.modules`, not imported.
    """
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None and hasattr(module, "get_ipython") else None
    asked = getattr(getattr(shell, "compile", None), "format_code_name", None)
    label = asked(file) if asked is not None else None  # ("Cell", "In[3]"), None for what is no cell
    cell = CELL.fullmatch(label[1]) if label else None
    return f"In [{cell[1]}]" if cell else file


class Source:
    """Lines of source, by hand-given code first, then as Python's own tracebacks find them."""

    def __init__(self, code: Code | None = None) -> None:
        self._file, self._first, text = code or ("", 1, "")
        self._lines = text.splitlines()
        self._places: dict[tuple[str, int], Place] = {}

    def line(self, file: str, number: int) -> str:
        """One line without its indentation, empty where there's no source."""
        index = number - self._first
        if file == self._file and 0 <= index < len(self._lines):
            return self._lines[index].strip()
        return linecache.getline(file, number).strip()

    def place(self, frame: FrameType | None) -> Place | None:
        """Where `frame` is now."""
        return None if frame is None else self.place_at(frame, frame.f_lineno or 0)

    def start(self, frame: FrameType | None) -> Place | None:
        """Where the block begins; code that was given by hand has no line before its first."""
        return None if self._lines else self.place(frame)

    def shown(self, file: str) -> str:
        """The file as a Place names it."""
        return display_file(file)

    def place_at(self, frame: FrameType, number: int) -> Place:
        """A given line of the file that `frame` runs."""
        file = frame.f_code.co_filename
        known = self._places.get((file, number))
        if known is None:
            known = self._places[file, number] = Place(display_file(file), number, self.line(file, number))
        return known

    def between(self, before: tuple[str, int] | None, now: tuple[str, int] | None) -> Place | None:
        """The line that most likely wrote bytes after the event on line `before`, up to the event on line `now`."""
        if before is None:
            return None
        file, first = before
        last = now[1] if now is not None and now[0] == file and now[1] > first else first + 1
        number = likely_write(self._text(file), first, last) or first
        return Place(display_file(file), number, self.line(file, number))

    def _text(self, file: str) -> str:
        if file == self._file:
            return "\n" * (self._first - 1) + "\n".join(self._lines)
        return "".join(linecache.getlines(file))

    def block(self, frame: FrameType | None) -> tuple[tuple[int, str], ...]:
        """The lines to show: the hand-given code, or the body of the `with` that `frame` is entering."""
        if self._lines:
            return tuple(enumerate(self._lines, self._first))
        if frame is None:
            return ()
        file = frame.f_code.co_filename
        return with_body("".join(linecache.getlines(file, frame.f_globals)), frame.f_lineno or 0)

    def file(self, frame: FrameType | None) -> str:
        """The file that `block` shows, as a Place names it."""
        if self._lines or frame is None:
            return display_file(self._file)
        return display_file(frame.f_code.co_filename)


@lru_cache(maxsize=32)
def with_body(text: str, line: int) -> tuple[tuple[int, str], ...]:
    """Lines of the innermost `with` statement's body whose head holds `line`; empty where there is none.

    >>> with_body("with record():\\n    a = 1\\n    b = 2\\n", 1)
    ((2, 'a = 1'), (3, 'b = 2'))
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.AsyncWith)
        and node.lineno <= line < max(node.body[0].lineno, node.lineno + 1)
    ]
    if not found:
        return ()
    body = max(found, key=lambda node: node.lineno).body
    first, last = body[0].lineno, body[-1].end_lineno or body[-1].lineno
    lines = textwrap.dedent("\n".join(text.splitlines()[first - 1 : last])).split("\n")
    return tuple(enumerate(lines, first))


def likely_write(text: str, first: int, last: int) -> int | None:
    """Among the statements on lines `first` to `last` - 1, the line of the one that looks most like a write.

    >>> likely_write("n = x.numpy()\\nm = 1\\nn[:] = 0\\nprint(m)\\nx.sum()", 1, 5)
    3
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    simple = [
        s for s in ast.walk(tree) if isinstance(s, ast.Assign | ast.AugAssign | ast.Expr) and first <= s.lineno < last
    ]
    ranked = sorted(simple, key=lambda statement: (_write_rank(statement), -statement.lineno))
    return ranked[0].lineno if ranked else None


def _write_rank(statement: ast.stmt) -> int:
    """0 for `x[…] = …`, 1 for `x += …`, 2 for a call, 3 for the rest."""
    if isinstance(statement, ast.AugAssign):
        return 0 if isinstance(statement.target, ast.Subscript) else 1
    if isinstance(statement, ast.Assign):
        return 0 if any(isinstance(target, ast.Subscript) for target in statement.targets) else 3
    return 2
