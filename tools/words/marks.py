"""Text that a command writes into a page kept by hand: between `<!-- name -->` and `<!-- /name -->`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


def between_marks(page: str, text: str, name: str) -> str:
    """The page with `text` between its marks.

    Raises: ValueError where the page has no such marks.

    >>> between_marks("a\\n<!-- x -->\\nold\\n<!-- /x -->\\nb", "new", "x")
    'a\\n<!-- x -->\\n\\nnew\\n\\n<!-- /x -->\\nb'
    """
    start, stop = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if start not in page or stop not in page:
        raise ValueError(f"The page has no marks {start.strip()} … {stop}: put them where the text belongs.")
    before, rest = page.split(start, 1)
    return f"{before}{start}\n{text}\n\n{stop}{rest.split(stop, 1)[1]}"


def write_between(path: Path, text: str, name: str) -> None:
    """The same for a file."""
    path.write_text(between_marks(path.read_text(encoding="utf-8"), text, name), encoding="utf-8")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> print(markdown_table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [head, *rows]
    texts = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([texts[0], "|" + "---|" * len(head), *texts[1:]])
