"""The catalogues: extract the English, merge it with the translations, compile the library's.

::

    seegrad/, tools/ ─ extract ─▶ templates ─ merge ─▶ seegrad/locale/zh_CN/LC_MESSAGES/seegrad.po ─ compile ─▶ .mo
    notebooks/NN.py, source/NN.py ─ extract ─▶ paragraphs ─ merge ─▶ locale/zh_CN/NN.po

    python -m tools.words.catalogue build           merge what is new and compile; prints what a translator has to do
    python -m tools.words.catalogue begin NN_topic  a catalogue for a chapter that has none
    python -m tools.words.catalogue --check         exit 1, naming each message that isn't translated, or not exactly

The library's files are in the package, so a plain `pip install` speaks Chinese. What was reworded is marked fuzzy with
its old translation, and is never shown until someone has looked at it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_file

from tools.words import translations
from tools.words.entries import DATED, LANGUAGES, PROJECT, empty, merged, mo_bytes, po_bytes, problems, read

ROOT = Path(__file__).resolve().parents[2]
SPEAKERS = (PROJECT, "tools")  # the library, and what makes the course's pages
KEYWORDS = {"_": None, "marked": None, "counted": (1, 2), "plural": (1, 2)}
REMEDY = "Run: python -m tools.words.catalogue build"

__all__ = ["DATED", "LANGUAGES", "build", "check", "extracted", "po_file"]


def extracted(root: Path = ROOT) -> Catalog:
    """Every template in the modules that speak, with the files that say it."""
    catalog = empty("en")
    for path in sorted(path for folder in SPEAKERS for path in (root / folder).rglob("*.py")):
        for _, message, comments, context in extract_from_file("python", path, KEYWORDS, ("Translators:",)):
            where = [(path.relative_to(root).as_posix(), 0)]
            catalog.add(message, locations=where, auto_comments=comments, context=context)
    return catalog


def po_file(lang: str, root: Path = ROOT) -> Path:
    """The library's translations into `lang`."""
    return root / PROJECT / "locale" / lang / "LC_MESSAGES" / f"{PROJECT}.po"


def derived(root: Path = ROOT) -> Iterator[tuple[Path, bytes, list[str]]]:
    """Each file, its bytes, and what a translator has to mend there."""
    template = extracted(root)
    for lang in LANGUAGES:
        path = po_file(lang, root)
        catalog = merged(read(path, lang), template)
        yield path, po_bytes(catalog), list(problems(catalog))
        yield path.with_suffix(".mo"), mo_bytes(catalog), []
    yield from translations.derived(root)


def build(root: Path = ROOT) -> list[Path]:
    """Write the files whose bytes changed."""
    written = []
    for path, data, _ in derived(root):
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            written.append(path)
    return written


def check(root: Path = ROOT) -> list[str]:
    """One sentence for each file that isn't up to date and each message that isn't translated exactly."""
    complaints = []
    for path, data, found in derived(root):
        name = path.relative_to(root)
        if not path.exists() or path.read_bytes() != data:
            complaints.append(f"{name} isn't what the sources make. {REMEDY}")
        complaints += [f"{name}: {problem}" for problem in found]
    return complaints


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when all is well, 1 when something is to be mended."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.words.catalogue", description="The words, language by language."
    )
    parser.add_argument("command", nargs="?", choices=["build", "begin"], help="merge new words; begin a chapter")
    parser.add_argument("names", nargs="*", help="with begin: masters to translate from now on")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args(argv)
    if not (arguments.command or arguments.check):
        parser.error("say what to do: build, begin or --check")
    for name in arguments.names:
        translations.begin(ROOT, name)
    for path in build() if arguments.command else []:
        print(f"wrote {path.relative_to(ROOT)}")
    complaints = check()
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    raise SystemExit(main())
