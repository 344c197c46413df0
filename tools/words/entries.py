"""Catalogues as gettext writes them: read, merge, store, compile, and what a translator still has to mend."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

LANGUAGES = ("zh_CN",)
EVERY_LANGUAGE = ("en", *LANGUAGES)
PROJECT = "seegrad"
DATED = datetime(2026, 1, 1, tzinfo=UTC)  # one date for all: files change when words do
GAPS = {"gaps": re.compile(r"\{[^{}]*\}")}
CODE = {"code": re.compile(r"`[^`]*`")}


def empty(lang: str) -> Catalog:
    """A catalogue without messages."""
    return Catalog(locale=lang, project=PROJECT, charset="utf-8", creation_date=DATED, revision_date=DATED)


def read(path: Path, lang: str) -> Catalog:
    """A catalogue from disk; an empty one where there is none yet."""
    if not path.exists():
        return empty(lang)
    with path.open("rb") as file:
        return read_po(file, locale=lang)


def merged(catalog: Catalog, template: Catalog) -> Catalog:
    """The catalogue with the template's messages; what it no longer says is dropped, what was reworded is fuzzy."""
    catalog.update(template, update_creation_date=False)
    catalog.obsolete.clear()
    return catalog


def po_bytes(catalog: Catalog, *, by_file: bool = True) -> bytes:
    """A catalogue as it is stored: by file, else in the order of reading; files are named without lines."""
    catalog.revision_date = catalog.creation_date = DATED
    catalog.fuzzy = False
    catalog.version, catalog.msgid_bugs_address = "", ""
    catalog.last_translator, catalog.language_team = PROJECT, "Simplified Chinese"
    catalog.header_comment = f"# {catalog.locale_identifier} translations of seegrad. Terms: locale/TERMS.md"
    file = io.BytesIO()
    write_po(file, catalog, width=110, sort_by_file=by_file, include_lineno=False, ignore_obsolete=True)
    return file.getvalue()


def mo_bytes(catalog: Catalog) -> bytes:
    """A catalogue as gettext reads it; fuzzy messages are left out."""
    file = io.BytesIO()
    write_mo(file, catalog)
    return file.getvalue()


def problems(
    catalog: Catalog,
    kept: Mapping[str, re.Pattern[str]] = GAPS | CODE,
    seen_as: Callable[[str], str] = str,
) -> Iterator[str]:
    """One sentence for each message that isn't translated, or whose `kept` parts differ; `seen_as` reads both sides."""
    for message in catalog:
        if message.id:
            said = f'"{_head(message)}"'
            if message.fuzzy:
                yield f"{said} is fuzzy: it was reworded. Look at its translation and remove the mark."
            elif not all(translations(message)):
                yield f"{said} isn't translated."
            else:
                yield from (f"{said}: {problem}" for problem in _inexact(message, kept, seen_as))


def _inexact(message: Message, kept: Mapping[str, re.Pattern[str]], seen_as: Callable[[str], str]) -> Iterator[str]:
    originals = list(message.id) if isinstance(message.id, tuple | list) else [message.id]
    for text in map(seen_as, translations(message)):
        for name, pattern in kept.items():
            wanted = [frozenset(pattern.findall(seen_as(each))) for each in originals]
            came = frozenset(pattern.findall(text))
            if came not in wanted:
                yield f"its {name} are {sorted(came)}, not {sorted(wanted[-1])}. They stay as they are."


def translations(message: Message) -> list[str]:
    """The message's forms in the catalogue's language; empty where it isn't translated."""
    told = message.string if isinstance(message.string, tuple | list) else [message.string]
    return [text or "" for text in told]


def _head(message: Message) -> str:
    text = message.id[0] if isinstance(message.id, tuple | list) else message.id
    return text if len(text) <= 60 else text[:59] + "…"
