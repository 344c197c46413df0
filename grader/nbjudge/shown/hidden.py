"""An executed notebook → the same without the hidden tests: neither in a test's source nor quoted in an output."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nbjudge.shown.text import ANSI

JsonCell = dict[str, Any]
BEGIN, END = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"
QUOTED = re.compile(r"^\s*(?:-+>\s*)?(?:\d+\s?)?(?:\|\s)?")  # what IPython and Python put before a quoted source line
LONG_ENOUGH = 8  # characters: a shorter hidden line may stand inside an innocent sentence


def without_hidden_tests(document: Mapping[str, Any], begin: str = BEGIN, end: str = END) -> dict[str, Any]:
    """The notebook as a student may see it: no hidden line in a test's source, nor quoted in any output.

    A line that also stands in the open elsewhere (`import torch`) isn't a secret and stays.
    """
    public, hidden = _split_lines(document["cells"], begin, end)
    secrets, none = frozenset(hidden - public), frozenset[str]()
    marked = any(map(_is_test, document["cells"]))
    return {
        **document,
        "cells": [
            _shown_to_student(cell, none if marked and not _is_test(cell) else secrets, begin, end)
            for cell in document["cells"]
        ],
    }


def _is_test(cell: Mapping[str, Any]) -> bool:
    """Only a test quotes its lines; what were taken out of anything else, a student would have guessed."""
    marks = cell.get("metadata", {}).get("nbgrader", {})
    return bool(marks.get("grade")) and not marks.get("solution")


def hidden_before(
    cells: Iterable[Mapping[str, Any]], begin: str = BEGIN, end: str = END
) -> Iterator[tuple[bool, bool]]:
    """Of each cell whether a hidden test may have run before it has ended, and before its last visible line has.

    What an answer says after that may be what a hidden test has asked it.

    >>> test = "f(1)\\n### BEGIN HIDDEN TESTS\\nf(2)\\n### END HIDDEN TESTS"
    >>> list(hidden_before([{"source": "f = 1"}, {"source": test}, {"source": "g = 2"}]))
    [(False, False), (True, False), (True, True)]
    """
    asked = False
    for cell in cells:
        lines = [is_hidden for line, is_hidden in marked_lines(cell["source"], begin, end) if line.strip()]
        late = asked or (True in lines and False in lines[lines.index(True) :])
        asked = asked or True in lines
        yield asked, late


def _split_lines(cells: Iterable[Mapping[str, Any]], begin: str, end: str) -> tuple[set[str], set[str]]:
    """Stripped source lines outside and inside the hidden regions."""
    public: set[str] = set()
    hidden: set[str] = set()
    for cell in cells:
        for line, is_hidden in marked_lines(cell["source"], begin, end):
            (hidden if is_hidden else public).add(line.strip())
    return public, hidden


def marked_lines(source: str, begin: str = BEGIN, end: str = END) -> Iterator[tuple[str, bool]]:
    """Each line and whether it is hidden; the delimiters are. An unclosed region hides all that follows."""
    inside = False
    for line in source.split("\n"):
        starts, ends = begin in line, end in line
        yield line, inside or starts or ends
        inside = (inside or starts) and not ends


def _shown_to_student(cell: Mapping[str, Any], secrets: frozenset[str], begin: str, end: str) -> JsonCell:
    visible = [line for line, is_hidden in marked_lines(cell["source"], begin, end) if not is_hidden]
    shown = {**cell, "source": "\n".join(visible)}
    if cell["cell_type"] == "code" and secrets:
        shown["outputs"] = [_without(output, secrets) for output in cell["outputs"]]
    return shown


def _without(output: Mapping[str, Any], secrets: frozenset[str]) -> dict[str, Any]:
    """The output without the lines that quote a hidden one."""
    if output["output_type"] == "stream":
        return {**output, "text": _censored(output["text"], secrets)}
    if output["output_type"] == "error":
        traceback = [text for part in output["traceback"] if (text := _censored(part, secrets)) or not part]
        return {**output, "evalue": _censored(output["evalue"], secrets), "traceback": traceback}
    data = {
        mime: _censored(content, secrets) if mime.startswith("text/") else content
        for mime, content in output["data"].items()
    }
    return {**output, "data": data}


def _censored(text: str, secrets: frozenset[str]) -> str:
    return "\n".join(line for line in text.split("\n") if not _quotes(line, secrets))


def _quotes(line: str, secrets: frozenset[str]) -> bool:
    plain = html.unescape(ANSI.sub("", line))
    if not plain.strip():
        return False
    return QUOTED.sub("", plain).strip() in secrets or any(
        len(secret) >= LONG_ENOUGH and secret in plain for secret in secrets
    )
