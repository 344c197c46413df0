"""Chapters, assignments and the README in other languages: prose by catalogue; code, ids and points as they are.

::

    notebooks/NN.py, source/NN.py ─ extract ─▶ paragraphs ─ merge ─▶ locale/zh_CN/NN.po
    notebooks/en/NN.ipynb, release/en/NN ─ locale/zh_CN/NN.po ─▶ notebooks/zh_CN/NN.ipynb, release/zh_CN/NN
    README.md ─ locale/zh_CN/README.po ─▶ README.zh_CN.md

A message is one paragraph, heading, list or table of a markdown cell; a block of code isn't one. The catalogue is
applied after nbgrader, so one gradebook serves every language. A master without a catalogue stays in English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog

from tools.course.masters import BookError, Master, read_master
from tools.words.entries import CODE, LANGUAGES, empty, merged, po_bytes, problems, read

FENCE = "```"
TAGS = re.compile(r"(\s*(</?\w+>|<!--.*?-->))+\s*")  # nothing but tags, such as those that close a hint, and remarks
DOCUMENTS = ("README",)
KEPT = CODE | {"formulas": re.compile(r"\$[^$]+\$"), "links": re.compile(r"\]\(([^)\s]+)\)")}
OWN_FOLDER = re.compile(r"\b(notebooks|release)/zh_CN\b")
OWN_PICTURE = re.compile(r"\bdocs/pictures/zh_CN/")
OWN_FILE = re.compile(r"\b(README)\.zh_CN\.md\b")


def catalogue_of(root: Path, lang: str, name: str) -> Path:
    """The translations of chapter `name` and its assignment."""
    return root / "locale" / lang / f"{name}.po"


def languages_of(root: Path, name: str) -> list[str]:
    """English, and each language with a catalogue for master `name`."""
    return ["en", *(lang for lang in LANGUAGES if catalogue_of(root, lang, name).exists())]


def in_language(root: Path, name: str, book: Any, lang: str) -> Any:
    """The notebook with its prose translated; English is what it was written in."""
    return book if lang == "en" else translated(book, read(catalogue_of(root, lang, name), lang))


def paragraphs(source: str) -> list[str]:
    """A markdown cell in pieces that join to it again: paragraphs, and what stands between them.

    >>> paragraphs("# Title\\n\\nText,\\nmore.")
    ['# Title', '\\n\\n', 'Text,\\nmore.']
    """
    pieces: list[str] = []
    fenced = False
    for piece in re.split(r"(\n(?:[ \t]*\n)+)", source):
        if fenced:
            pieces[-1] += piece
        else:
            pieces.append(piece)
        fenced ^= piece.count(FENCE) % 2 == 1
    return pieces


def is_prose(paragraph: str) -> bool:
    """Is there anything to translate?"""
    return bool(paragraph.strip()) and not paragraph.startswith(FENCE) and not TAGS.fullmatch(paragraph)


def extracted(masters: list[Master]) -> Catalog:
    """Every paragraph of these masters in the order in which it is read."""
    catalog = empty("en")
    for master in masters:
        folder = master.path.parent.name
        for cell in master.cells:
            if cell.cell_type == "markdown" and cell.kind != "manual":  # that one holds the answer
                for paragraph in filter(is_prose, paragraphs(cell.source)):
                    catalog.add(paragraph, locations=[(f"{folder}/{master.path.name}", 0)])
    return catalog


def translated(book: Any, catalog: Catalog) -> Any:
    """The notebook with its prose in the catalogue's language, in place.

    Raises BookError for a paragraph that has no translation.
    """
    for cell in book.cells:
        manual = cell.metadata.get("nbgrader", {}).get("solution")
        if cell.cell_type == "markdown" and not manual:
            cell.source = "".join(_translation(piece, catalog) for piece in paragraphs(cell.source))
    return book


def _translation(paragraph: str, catalog: Catalog) -> str:
    if not is_prose(paragraph):
        return paragraph
    message = catalog.get(paragraph)
    if message is None or message.fuzzy or not isinstance(message.string, str) or not message.string:
        raise BookError(
            f"{catalog.locale_identifier} lacks {paragraph[:60]!r}. Run: python -m tools.words.catalogue build"
        )
    return message.string


def names(root: Path, lang: str) -> list[str]:
    """The masters that have a catalogue in `lang`."""
    return sorted({path.stem for path in (root / "locale" / lang).glob("*.po")} - set(DOCUMENTS))


def masters_of(root: Path, name: str) -> list[Master]:
    """The chapter and the assignment of that name."""
    paths = (root / "notebooks" / f"{name}.py", root / "source" / f"{name}.py")
    return [read_master(path) for path in paths if path.exists()]


def derived(root: Path) -> Iterator[tuple[Path, bytes, list[str]]]:
    """Each catalogue and document, its bytes with what is said today, and what a translator has to mend there."""
    for lang in LANGUAGES:
        for name in names(root, lang):
            path = catalogue_of(root, lang, name)
            yield path, *_updated(path, lang, extracted(masters_of(root, name)))[:2]
        for name in DOCUMENTS:
            original, path = root / f"{name}.md", catalogue_of(root, lang, name)
            if original.exists() and path.exists():
                text = original.read_text(encoding="utf-8")
                data, found, catalog = _updated(path, lang, _extracted_from(text, original.name))
                yield path, data, found
                yield original.with_suffix(f".{lang}.md"), _document(text, catalog).encode(), []


def _updated(path: Path, lang: str, template: Catalog) -> tuple[bytes, list[str], Catalog]:
    catalog = merged(read(path, lang), template)
    return po_bytes(catalog, by_file=False), list(problems(catalog, KEPT, _in_english)), catalog


def _extracted_from(text: str, name: str) -> Catalog:
    catalog = empty("en")
    for paragraph in filter(is_prose, paragraphs(text)):
        catalog.add(paragraph, locations=[(name, 0)])
    return catalog


def _document(text: str, catalog: Catalog) -> str:
    """A document with the paragraphs that are translated; the others are complained of elsewhere."""
    pieces = []
    for piece in paragraphs(text):
        message = catalog.get(piece) if is_prose(piece) else None
        pieces.append(str(message.string) if message is not None and message.string and not message.fuzzy else piece)
    return "".join(pieces).rstrip("\n") + "\n"


def _in_english(text: str) -> str:
    """A language's own folder or file is the same place as the English one."""
    text = OWN_FOLDER.sub(r"\1/en", text)
    return OWN_FILE.sub(r"\1.md", OWN_PICTURE.sub("docs/pictures/", text))


def begin(root: Path, name: str) -> None:
    """A catalogue for a master that has none. Raises BookError when there's no such master."""
    if not masters_of(root, name) and name not in DOCUMENTS:
        raise BookError(f"There is no notebooks/{name}.py and no source/{name}.py. Write the master first.")
    for lang in LANGUAGES:
        path = catalogue_of(root, lang, name)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(po_bytes(empty(lang), by_file=False))
