"""What the user's text says of what torch has just refused: read once the error is there, never while all goes well."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType

from seegrad.capture.probes.places import Source, definitions
from seegrad.model.recording import Clue, Place

REGISTERS = re.compile(r"\.register_(?:full_)?backward_(?:pre_)?hook\(")
CLASS = re.compile(r"\s*class (\w+)\b")
DRAWS = re.compile(
    r"(?<![\w.])(?:(?:random|(?:np|numpy)\.random|(?:\w+\.)*_?rng)\.\w+|random|randint|randrange|uniform|choice)\("
)
"""Code that draws by Python's `random` or numpy, of which torch doesn't know."""

LEAVES = ast.Return | ast.Raise | ast.Continue | ast.Break
Decision = ast.If | ast.IfExp | ast.While
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


def drawn_by(source: Source, reached: Place) -> Place | None:
    """The line that draws what decides whether that one is reached, or itself; not by torch."""
    if DRAWS.search(reached.code):
        return reached
    for each in _deciding(source, reached):
        if DRAWS.search(ast.unparse(each.test)):
            return source.at(reached.file, each.test.lineno)
        names = {node.id for node in ast.walk(each.test) if isinstance(node, ast.Name)}
        sets = (node for node in _around(source, reached) if isinstance(node, ast.Assign) and node.lineno < each.lineno)
        gave = [node for node in sets if any(isinstance(to, ast.Name) and to.id in names for to in node.targets)]
        last = max(gave, key=lambda node: node.lineno, default=None)
        if last is not None and DRAWS.search(ast.unparse(last.value)):
            return source.at(reached.file, last.lineno)
    return None


def decided_by(source: Source, reached: Place) -> Place | None:
    """The line that decides whether that one is reached: the nearest `if` around it, or before it that leaves."""
    found = next(_deciding(source, reached), None)
    return None if found is None else source.at(reached.file, found.test.lineno)


def _deciding(source: Source, reached: Place) -> Iterator[Decision]:
    """Nearest first: those around the line, and those before it by which the function, or a loop's turn, may end."""
    before = [node for node in _around(source, reached) if isinstance(node, Decision) and node.lineno <= reached.line]
    for node in sorted(before, key=lambda node: node.lineno, reverse=True):
        if reached.line <= (node.end_lineno or 0) or any(isinstance(each, LEAVES) for each in ast.walk(node)):
            yield node


def _around(source: Source, place: Place) -> Iterator[ast.AST]:
    """All that stands in the innermost function around a line."""
    functions = [each for each in definitions(source.text(place.file)) if not isinstance(each, ast.ClassDef)]
    around = [each for each in functions if each.lineno < place.line <= (each.end_lineno or 0)]
    return ast.walk(max(around, key=lambda each: each.lineno)) if around else iter(())
