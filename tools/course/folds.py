"""What answers a question waits until the question is answered: prose in a fold, outputs marked `hide-output`.

A question is a paragraph with **Predict** or **Repair**, or a cell that asks in its picture. All that stands
between the first code cell after it and the next question or heading tells its answer, but for what to try next and for
what leads on to the next cell of code: a last paragraph that ends in a colon. Below **Repair** that cell
is the answer: its source waits too, but for its first line. A notebook that a learner opens holds no output anyway;
on a page without a kernel the marks say what waits (they are those that Jupyter Book knows, too).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from seegrad.words.languages import marked, translate
from tools.words.translations import in_language, paragraphs

WAITS, SOURCE_WAITS = "hide-output", "hide-input"
PROMPT = re.compile(r"\*\*[Pp]redict|\*\*Repair\*\*")
REPAIR = re.compile(r"\*\*Repair\*\*")
ASKS = re.compile(r"--(?:ask|ahead) \w|\bask=|\bask_again\(")
LEADS_ON = re.compile(r":\s*$")
ENDS = re.compile(r"#|\*\*Now\b")  # a heading, or the way to the assignment
ALTER = re.compile(r"\*\*Change\b")  # what to try next tells nothing, and isn't to be overlooked
CLOSED = marked("Predicted and run? Explain it to yourself, then open this.")
SHOWN = marked("Run the cell, look at what it shows, then open this.")
FOLD = "<details><summary>{said}</summary>\n\n{text}\n\n</details>"


class Waiting(NamedTuple):
    """How many pieces of a cell wait, and under which words."""

    pieces: int
    said: str = CLOSED


def presented(root: Path, name: str, book: Any, lang: str) -> Any:
    """The English chapter as a learner reads it in a language: what answers a question is folded. In place."""
    waiting = list(answers(book))
    book = in_language(root, name, book, lang)
    for cell, (pieces, said) in zip(book.cells, waiting, strict=True):
        if cell.cell_type == "code" and pieces:
            cell.metadata["tags"] = [*cell.metadata.get("tags", ()), *(WAITS, SOURCE_WAITS)[:pieces]]
            if pieces > 1:
                cell.metadata["jupyter"] = {"source_hidden": True}
        elif pieces:
            cell.source = _folded(paragraphs(cell.source), pieces, translate(said, lang))
    return book


def _folded(text: list[str], pieces: int, said: str) -> str:
    fold = FOLD.format(said=said, text="".join(text[:pieces]).rstrip())
    rest = "".join(text[pieces:]).lstrip("\n")
    return f"{fold}\n\n{rest}" if rest else fold


def answers(book: Any) -> Iterator[Waiting]:
    """For each cell of an English chapter how many of its pieces tell an open question's answer.

    For code 0, 1 where its output waits, 2 where its source waits too.

    >>> from nbformat.v4 import new_code_cell as code, new_markdown_cell as prose, new_notebook
    >>> cells = prose("**Predict** it."), code("1 + 1"), prose("Two.\\n\\n**Predict** more."), prose("# Next"), code("")
    >>> [each.pieces for each in answers(new_notebook(cells=list(cells)))]
    [0, 1, 2, 0, 0]
    """
    asked = telling = repaired = False
    before, said = None, CLOSED
    for cell, after in zip(book.cells, [*book.cells[1:], None], strict=True):
        if cell.cell_type == "code":
            said = CLOSED if (asked and not repaired) or _asks(cell) else SHOWN
            telling, asked = telling or asked or _asks(cell), False
            waits = telling and not _asks(cell)  # a picture that asks waits by itself
            yield Waiting((2 if repaired else 1) if waits else 0)
            repaired = False
        else:
            text = paragraphs(cell.source)
            new = _new(text, leads_on=after is not None and _asks(after))
            alone = before == "markdown" and bool(PROMPT.search(cell.source))  # all of it leads to its question
            ends = [new, *_starts(ALTER, text), *_leads_on(text, after)]
            yield Waiting(min(ends) if telling and not alone else 0, said)
            telling = telling and new == len(text)
            asked = bool(PROMPT.search(cell.source)) or (asked and not _starts(ENDS, text))
            repaired = bool(REPAIR.search(cell.source))
        before = cell.cell_type


def _new(text: list[str], *, leads_on: bool) -> int:
    """The first piece that isn't about what ran above; a cell that asks has its question in the last one before it."""
    prompts = [k for k, piece in enumerate(text) if PROMPT.search(piece)]
    return min([*prompts, *_starts(ENDS, text)], default=len(text) - 1 if leads_on else len(text))


def _leads_on(text: list[str], after: Any) -> list[int]:
    """The last piece, where it ends in a colon and code follows."""
    return [len(text) - 1] if after is not None and after.cell_type == "code" and LEADS_ON.search(text[-1]) else []


def _starts(sign: re.Pattern[str], text: list[str]) -> list[int]:
    return [k for k, piece in enumerate(text) if sign.match(piece)]


def _asks(cell: Any) -> bool:
    return cell.cell_type == "code" and bool(ASKS.search(cell.source))
