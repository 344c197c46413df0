"""Buttons for Colab and Binder: `python -m tools.online OWNER/NAME[@REF]`, once the course has an address on GitHub.

::

    notebooks/LANG/NN.ipynb ─▶ colab/LANG/NN.ipynb, which installs the library first
    OWNER/NAME              ─▶ the table in docs/online.md: a button for each chapter, language and place
                               the address in both pyproject.toml, and what the READMEs and the site's front pages clone

Binder opens the chapters as they are: `.binder/` says what it installs. Run the command again when a chapter changes.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat

from tools.course.masters import BookError, notebook_bytes, read_notebook
from tools.words.entries import EVERY_LANGUAGE
from tools.words.marks import markdown_table, write_between

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path("docs", "online.md")
FRONTS = tuple(f"docs/site/{lang}/index.md" for lang in EVERY_LANGUAGE)
ADDRESSED = ("pyproject.toml", "grader/pyproject.toml", "README.md", "README.zh_CN.md", *FRONTS)
INSTALL = """%pip install -q "seegrad @ git+https://github.com/{repository}@{ref}"

import os

os.environ["SEEGRAD_LANG"] = "{lang}"

from google.colab import output

output.enable_custom_widget_manager()"""
COLAB = "https://colab.research.google.com/github/{repository}/blob/{ref}/colab/{lang}/{name}.ipynb"
BINDER = "https://mybinder.org/v2/gh/{repository}/{ref}?urlpath=lab/tree/notebooks/{lang}/{name}.ipynb"
BADGES = {
    COLAB: ("Colab", "https://colab.research.google.com/assets/colab-badge.svg"),
    BINDER: ("Binder", "https://mybinder.org/badge_logo.svg"),
}


def address(text: str) -> tuple[str, str]:
    """The repository and the branch, tag or commit of `OWNER/NAME[@REF]`; the default is what GitHub shows first.

    Raises BookError for anything else.

    >>> address("ada/seegrad@v1")
    ('ada/seegrad', 'v1')
    >>> address("ada/seegrad")
    ('ada/seegrad', 'HEAD')
    """
    found = re.fullmatch(r"([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?", text)
    if not found:
        raise BookError(f"{text!r} is no address on GitHub. Say OWNER/NAME or OWNER/NAME@BRANCH.")
    return found[1], found[2] or "HEAD"


def chapters(root: Path) -> Iterator[tuple[str, Path]]:
    """(language, notebook) of every chapter."""
    for lang in EVERY_LANGUAGE:
        yield from ((lang, path) for path in sorted((root / "notebooks" / lang).glob("*.ipynb")))


def for_colab(book: Any, repository: str, ref: str, lang: str) -> Any:
    """The chapter with one more cell at its top, which installs the library and says the language."""
    cell = nbformat.v4.new_code_cell(INSTALL.format(repository=repository, ref=ref, lang=lang), id="install")  # type: ignore[no-untyped-call]  # nbformat has no types
    book.cells.insert(0, cell)
    return book


def table(root: Path, repository: str, ref: str) -> str:
    """A button for each chapter and place, as Markdown."""
    rows = []
    for lang, path in chapters(root):
        places = {"repository": repository, "ref": ref, "lang": lang, "name": path.stem}
        buttons = [f"[![{name}]({badge})]({link.format(**places)})" for link, (name, badge) in BADGES.items()]
        rows.append((path.stem, lang, *buttons))
    return markdown_table(("chapter", "language", "Colab", "Binder"), rows)


def write(root: Path, repository: str, ref: str) -> list[Path]:
    """Write the notebooks for Colab and the table; returns what was written."""
    written = []
    for lang, path in chapters(root):
        made = root / "colab" / lang / path.name
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_bytes(notebook_bytes(for_colab(read_notebook(path), repository, ref, lang)))
        written.append(made)
    write_between(root / PAGE, table(root, repository, ref), "buttons")
    return [*written, root / PAGE, *say_address(root, f"https://github.com/{repository}")]


def say_address(root: Path, address: str) -> list[Path]:
    """Put the repository's address where one was, or is to be; returns the files that said another one."""
    said = root / ADDRESSED[0]
    old = re.search(r'^Repository = "(.*)"', said.read_text(encoding="utf-8"), re.MULTILINE) if said.exists() else None
    changed = []
    for path in (root / name for name in ADDRESSED if old):
        text = path.read_text(encoding="utf-8")
        new = re.sub(rf"{re.escape(old[1] if old else '')}(?![\w.-])|<this repository>", address, text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            changed.append(path)
    return changed


def main(argv: Sequence[str] | None = None) -> int:
    """Write all of it for one address."""
    parser = argparse.ArgumentParser(prog="python -m tools.online", description=(__doc__ or "").split(":")[0])
    parser.add_argument("address", metavar="OWNER/NAME[@REF]", help="where the course lies on GitHub")
    parser.add_argument("--root", type=Path, default=ROOT, help="where the course lies here")
    arguments = parser.parse_args(argv)
    try:
        repository, ref = address(arguments.address)
    except BookError as error:
        parser.error(str(error))
    for path in write(arguments.root.resolve(), repository, ref):
        print(f"wrote {path.relative_to(arguments.root.resolve())}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
