"""Text of untrusted origin, as Jupyter keeps it and as a terminal, a log or a table may have it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")  # C0 and C1; all but tab and newline
DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # what turns the order of letters around
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
FILE_NAME = re.compile(r"[\w.-]+", re.ASCII)


def printable(text: str) -> str:
    """The same text without colours, control characters, marks of direction and half characters.

    >>> printable("\\x1b[31mred\\x1b[0m\\x9b2J\\u202etxt\\ud800")
    'red2Jtxt?'
    """
    plain = DIRECTIONS.sub("", CONTROLS.sub("", ANSI.sub("", text)))
    return plain.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str) -> str:
    """The same on one line: what stands in a table or a log makes no rows of its own.

    >>> one_line("zed\\nada    4/4")
    'zed ada    4/4'
    """
    return printable(text).replace("\n", " ")


def counted(number: float, one: str, many: str = "") -> str:
    """A number with what it counts, as English says it; `many` where an s at the end isn't all that changes.

    >>> counted(1, "point"), counted(0.5, "point"), counted(2, "is there", "are there")
    ('1 point', '0.5 points', '2 are there')
    """
    return f"{number:g} {one if number == 1 else many or f'{one}s'}"


def files_named(text: str, names: Iterable[str]) -> list[str]:
    """Those of these files that a text may name, by what stands behind their last slash.

    The text is read once, however many they are; one whose name has other letters than these counts as named.

    >>> files_named("![](img/a.png), b.csv.", ["img/a.png", "b.csv", "c.csv", "my d.csv"])
    ['img/a.png', 'b.csv', 'my d.csv']
    """
    found = {match[0].strip(".-") for match in FILE_NAME.finditer(text)}
    short = {name: name.rpartition("/")[2] for name in names}
    return [name for name, end in short.items() if end.strip(".-") in found or not FILE_NAME.fullmatch(end)]


def placed(cells: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each cell with its place, as all of the grader says it: code cells by the number that running all of them shows.

    >>> made = [("markdown", "# One"), ("code", "x = 1"), ("code", " "), ("code", "x"), ("markdown", "Two")]
    >>> [place for place, _ in placed([{"cell_type": kind, "source": text} for kind, text in made])]
    ['text cell 1', 'code cell 1', 'code cell 1', 'code cell 2', 'text cell 2']
    """
    seen = Counter[str]()
    for cell in cells:
        kind = "code" if cell["cell_type"] == "code" else "text"
        seen[kind] += kind == "text" or bool(text_of(cell["source"]).strip())
        yield f"{kind} cell {seen[kind]}", cell


def overprinted(text: str) -> str:
    """Of a line that was printed over, as a progress bar is, what a terminal shows in the end.

    >>> overprinted("10%\\r100%\\ndone")
    '100%\\ndone'
    """
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return "\n".join(lines)


def text_of(value: Any) -> str:
    """Jupyter's text, which may come in pieces; UTF-8 can say it."""
    if isinstance(value, list | tuple):
        return "".join(text_of(part) for part in value if not isinstance(part, list | tuple))
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text.encode("utf-8", "replace").decode("utf-8")
