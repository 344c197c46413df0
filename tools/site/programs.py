"""Programs whose lines are flipped: a file of docs/site/programs as its lines, and what may stand in their place.

::

    h = h + 1        the line that is right stands in the program, which runs as it is
    # bug: h += 1    what stands there at first: the mistake that the page is about
    # or: h = h * 2  one more to choose
    # but: It is …    what is said below that one, where it is chosen

Above the code stand `# kind:`, the Diagnosis that the mistake must get, or `# error:`, a part of what torch says;
`# corpus:`, the program of tests/data/programs that this one is small for; `# record:`, options of `record()`.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tools.course.masters import BookError

FOLDER = Path("docs", "site", "programs")
MOST_FLIPPED, MOST_CHOICES = 3, 12
OPTION = re.compile(r"(?P<indent> *)# (?P<mark>bug|or|but): (?P<text>\S.*)")
HEADER = re.compile(r"# (?P<key>kind|error|corpus|record): (?P<value>.+)")

Choice = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """A line with alternatives, each with its indentation; the mistake, where there is one, is the first.

    A remark for each says what it does that its play doesn't show, as where it only silences an error; mostly "".
    """

    line: int
    options: tuple[str, ...]
    right: int
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class FlippedProgram:
    """One file. A Choice has an option for each line with alternatives."""

    name: str
    title: str
    text: str
    lines: tuple[str, ...]
    alternatives: tuple[Alternatives, ...]
    kind: str = ""
    error: str = ""
    corpus: str = ""
    options: tuple[str, ...] = ()

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """All that a reader can put together; the first is the mistake."""
        return tuple(itertools.product(*(range(len(each.options)) for each in self.alternatives)))

    @property
    def mended(self) -> Choice:
        """The program as it stands in its file."""
        return tuple(each.right for each in self.alternatives)

    def code(self, choice: Choice) -> str:
        """The program with these options: as many lines, whatever is chosen."""
        lines = list(self.lines)
        for each, chosen in zip(self.alternatives, choice, strict=True):
            lines[each.line - 1] = each.options[chosen]
        return "\n".join(lines) + "\n"


def read_programs(root: Path) -> dict[str, FlippedProgram]:
    """Every program, by name. Raises: BookError for one that isn't written as it should be."""
    return {path.stem: read_program(path.stem, path.read_text(encoding="utf-8")) for path in paths(root)}


def paths(root: Path) -> Iterator[Path]:
    """The files that hold them."""
    yield from sorted((root / FOLDER).glob("*.py"))


def titles(root: Path, lang: str) -> dict[str, tuple[str, str]]:
    """Title and text of each program in a language other than English, by its name."""
    return {name: (said["title"], said["text"]) for name, said in _translated(root, lang).items()}


def remarks(root: Path, lang: str) -> dict[str, dict[str, str]]:
    """By the name of a program: in a language other than English what is said of a line, by the line."""
    return {name: said.get("but", {}) for name, said in _translated(root, lang).items()}


def _translated(root: Path, lang: str) -> dict[str, Any]:
    return tomllib.loads((root / FOLDER / f"{lang}.toml").read_text(encoding="utf-8"))


def read_program(name: str, text: str) -> FlippedProgram:
    """One program.

    >>> read = read_program("x", '"The title\\\\n\\\\nIts text."\\n# kind: cut\\na = 1\\n# bug: a = 2\\n')
    >>> read.title, read.text, read.kind, read.code((0,)), read.code(read.mended)
    ('The title', 'Its text.', 'cut', 'a = 2\\n', 'a = 1\\n')
    """
    tree = ast.parse(text)
    said = ast.get_docstring(tree)
    if not said or "\n\n" not in said:
        raise BookError(f"{name}: a title, an empty line and a text are missing.")
    title, _, prose = said.partition("\n\n")
    written = text.splitlines()[tree.body[0].end_lineno or 0 :]
    headers = {found["key"]: found["value"] for found in map(HEADER.fullmatch, written) if found}
    lines, alternatives = _body(name, [line for line in written if not HEADER.fullmatch(line)])
    program = FlippedProgram(
        name, title, prose.replace("\n", " "), lines, alternatives, headers.get("kind", ""), headers.get("error", ""),
        headers.get("corpus", ""), tuple(headers.get("record", "").split()),
    )  # fmt: skip
    count = math.prod(len(each.options) for each in alternatives)
    if not 1 <= len(alternatives) <= MOST_FLIPPED or count > MOST_CHOICES or program.choices[0] == program.mended:
        raise BookError(
            f"{name}: one to three lines with alternatives, up to {MOST_CHOICES} choices and a bug are wanted."
        )
    return program


def _body(name: str, written: list[str]) -> tuple[tuple[str, ...], tuple[Alternatives, ...]]:
    """The lines of the program, and those with alternatives."""
    lines: list[str] = []
    others: dict[int, list[tuple[str, str]]] = {}
    for line in itertools.dropwhile(lambda each: not each.strip(), written):
        option = OPTION.fullmatch(line)
        if option is None:
            lines.append(line)
        elif not lines:
            raise BookError(f"{name}: an alternative stands above the first line.")
        else:
            others.setdefault(len(lines), []).append((option["mark"], option["indent"] + option["text"]))
    return tuple(lines), tuple(_alternatives(number, lines[number - 1], more) for number, more in others.items())


def _alternatives(number: int, right: str, more: list[tuple[str, str]]) -> Alternatives:
    said = {before: text.strip() for (_, before), (mark, text) in itertools.pairwise(more) if mark == "but"}
    bugs = [text for mark, text in more if mark == "bug"]
    rest = [text for mark, text in more if mark == "or"]
    options = [*bugs, *rest, right] if bugs else [right, *rest]
    return Alternatives(number, tuple(options), options.index(right), tuple(said.get(each, "") for each in options))
