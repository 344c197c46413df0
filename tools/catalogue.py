"""The library's catalogue: extract the English templates, merge them with the translations, compile.

::

    seegrad/**/*.py ─ extract ─▶ templates ─ merge ─▶ seegrad/locale/zh_CN/LC_MESSAGES/seegrad.po ─ compile ─▶ .mo

    python -m tools.catalogue build      merge what is new and compile; prints what a translator has to do
    python -m tools.catalogue --check    exit 1, naming each message that isn't translated, or not exactly

Both files are committed, so a plain `pip install` speaks Chinese. A template that was reworded is marked fuzzy with its
old translation, and is never shown until someone has looked at it.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_file
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "seegrad"
LANGUAGES = ("zh_CN",)
DOMAIN = "seegrad"
KEYWORDS = {"_": None, "marked": None, "counted": (1, 2)}
DATED = datetime(2026, 1, 1, tzinfo=UTC)  # one date for all: files change when words do
GAP = re.compile(r"\{[^{}]*\}")
CODE = re.compile(r"`[^`]*`")
REMEDY = "Run: python -m tools.catalogue build"


def extracted(package: Path = PACKAGE) -> Catalog:
    """Every template in the package's modules, with the files that say it."""
    catalog = Catalog(project=DOMAIN, charset="utf-8", creation_date=DATED)
    for path in sorted(package.rglob("*.py")):
        for _, message, comments, context in extract_from_file("python", path, KEYWORDS, ("Translators:",)):
            where = [(path.relative_to(package.parent).as_posix(), 0)]
            catalog.add(message, locations=where, auto_comments=comments, context=context)
    return catalog


def po_file(lang: str, package: Path = PACKAGE) -> Path:
    """The translations into `lang`."""
    return package / "locale" / lang / "LC_MESSAGES" / f"{DOMAIN}.po"


def read(path: Path, lang: str) -> Catalog:
    """A catalogue from disk; an empty one where there is none yet."""
    if not path.exists():
        return Catalog(locale=lang, project=DOMAIN, charset="utf-8", creation_date=DATED, revision_date=DATED)
    with path.open("rb") as file:
        return read_po(file, locale=lang)


def merged(catalog: Catalog, template: Catalog) -> Catalog:
    """The catalogue with the template's messages; what it no longer says is dropped."""
    catalog.update(template, update_creation_date=False)
    catalog.obsolete.clear()
    return catalog


def po_bytes(catalog: Catalog) -> bytes:
    """A catalogue as it is stored: sorted by message, files named without lines."""
    catalog.revision_date = catalog.creation_date = DATED
    catalog.fuzzy = False
    catalog.version, catalog.msgid_bugs_address = "", ""
    catalog.last_translator, catalog.language_team = "seegrad", "Simplified Chinese"
    catalog.header_comment = f"# {catalog.locale_identifier} translations of seegrad. Terms: locale/TERMS.md"
    file = io.BytesIO()
    write_po(file, catalog, width=110, sort_by_file=True, include_lineno=False, ignore_obsolete=True)
    return file.getvalue()


def mo_bytes(catalog: Catalog) -> bytes:
    """A catalogue as gettext reads it; fuzzy messages are left out."""
    file = io.BytesIO()
    write_mo(file, catalog)
    return file.getvalue()


def problems(catalog: Catalog) -> Iterator[str]:
    """One sentence for each message that isn't translated, or not exactly."""
    for message in catalog:
        if message.id:
            said = f'"{_head(message)}"'
            if message.fuzzy:
                yield f"{said} is fuzzy: it was reworded. Look at its translation and remove the mark."
            elif not all(_translations(message)):
                yield f"{said} isn't translated."
            else:
                yield from (f"{said}: {problem}" for problem in _inexact(message))


def _inexact(message: Message) -> Iterator[str]:
    """Gaps and code have to be the same on both sides."""
    originals = list(message.id) if isinstance(message.id, tuple | list) else [message.id]
    for text in _translations(message):
        gaps = {frozenset(GAP.findall(each)) for each in originals}
        if frozenset(GAP.findall(text)) not in gaps:
            yield f"its gaps are {sorted(set(GAP.findall(text)))}. Use those of the original, all and only."
        codes = {frozenset(CODE.findall(each)) for each in originals}
        if frozenset(CODE.findall(text)) not in codes:
            yield f"its code is {sorted(set(CODE.findall(text)))}. Code between backticks stays as it is."


def _translations(message: Message) -> list[str]:
    told = message.string if isinstance(message.string, tuple | list) else [message.string]
    return [text or "" for text in told]


def _head(message: Message) -> str:
    text = message.id[0] if isinstance(message.id, tuple | list) else message.id
    return text if len(text) <= 60 else text[:59] + "…"


def derived(package: Path = PACKAGE) -> Iterator[tuple[Path, bytes, Catalog]]:
    """Each file and its bytes, and the catalogue that it holds."""
    template = extracted(package)
    for lang in LANGUAGES:
        path = po_file(lang, package)
        catalog = merged(read(path, lang), template)
        yield path, po_bytes(catalog), catalog
        yield path.with_suffix(".mo"), mo_bytes(catalog), catalog


def build(package: Path = PACKAGE) -> list[Path]:
    """Write the files whose bytes changed."""
    written = []
    for path, data, _ in derived(package):
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            written.append(path)
    return written


def check(package: Path = PACKAGE) -> list[str]:
    """One sentence for each file that isn't up to date and each message that isn't translated exactly."""
    complaints = []
    for path, data, catalog in derived(package):
        name = path.relative_to(package.parent)
        if not path.exists() or path.read_bytes() != data:
            complaints.append(f"{name} isn't what the sources make. {REMEDY}")
        if path.suffix == ".po":
            complaints += [f"{name}: {problem}" for problem in problems(catalog)]
    return complaints


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when all is well, 1 when something is to be mended."""
    parser = argparse.ArgumentParser(prog="python -m tools.catalogue", description="The words of the library.")
    parser.add_argument("command", nargs="?", choices=["build"], help="merge new templates, compile")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args(argv)
    if not (arguments.command or arguments.check):
        parser.error("say what to do: build or --check")
    if arguments.command == "build":
        _print(f"wrote {path.relative_to(ROOT)}" for path in build())
    complaints = check()
    _print(complaints, file=sys.stderr)
    return 1 if complaints else 0


def _print(lines: Iterable[str], file: TextIO | None = None) -> None:
    for line in lines:
        print(line, file=file)


if __name__ == "__main__":
    raise SystemExit(main())
