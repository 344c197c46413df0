"""What the user's text says of what torch has just refused: read once the error is there, never while all goes well."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType

from seegrad.capture.probes.places import Source
from seegrad.model.recording import Clue

REGISTERS = re.compile(r"\.register_(?:full_)?backward_(?:pre_)?hook\(")
CLASS = re.compile(r"\s*class (\w+)\b")
MARK = re.compile(r"\s*@[\w.]*once_differentiable\b")


def said_of_refused(source: Source, frames: Sequence[FrameType], at: int) -> list[Clue]:
    """The lines, in the files of the functions under way, that may be to blame after Frame `at`; their own come first.

    `registers`: it puts a backward hook on a module. `once`: it marks the backward of Function `owner`.
    """
    files = dict.fromkeys(frame.f_code.co_filename for frame in reversed(frames))
    found = [each for file in files for each in _said(source, file, at)]
    own = [(code.co_filename, _lines(code)) for code in (frame.f_code for frame in frames)]
    return sorted(
        found, key=lambda each: not any(each.place.file == file and each.place.line in on for file, on in own)
    )


def _said(source: Source, file: str, at: int) -> Iterator[Clue]:
    owner = ""
    for number, text in enumerate(source.text(file).splitlines(), 1):
        named = CLASS.match(text)
        owner = named[1] if named is not None else owner
        if REGISTERS.search(text) and not text.lstrip().startswith("#"):
            yield Clue("registers", at, source.at(file, number), ())
        elif MARK.match(text):
            yield Clue("once", at, source.at(file, number), (), (("owner", owner),))


def _lines(code: CodeType) -> range:
    """Those of a function; of a module none, since all are."""
    numbers = [line for _, _, line in code.co_lines() if line is not None] if code.co_name != "<module>" else []
    return range(min(numbers, default=0), max(numbers, default=-1) + 1)
