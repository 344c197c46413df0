"""The course as a folder of HTML files: `python -m tools.book html [DIR]`.

::

    notebooks/NN.py ─ run, with its Scenes ─▶ DIR/en/NN.html, DIR/zh_CN/NN.html
    seegrad.course ─ map ─▶ DIR/index.html, DIR/zh_CN/index.html

Every file stands alone: the player, the style and the Scenes are inside, mathematics is MathML, and nothing is asked of
any host. Pictures step and ask without a kernel. A page whose chapter, translation and library are as they were when it
was written isn't made again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seegrad.display.page import STATIC
from seegrad.display.widget import WITH_SCENES
from seegrad.learn.course_map import CourseMap
from seegrad.learn.progress import Progress
from seegrad.words.languages import speaking
from tools.course.chapters import executed
from tools.course.folds import presented
from tools.course.masters import read_master, to_notebook
from tools.course.offline_page import Way, chapter_page, front_page, title_of
from tools.words.entries import EVERY_LANGUAGE
from tools.words.translations import catalogue_of, in_language, languages_of

DEFAULT = Path("build/pages")
HERE = Path(__file__).parent
LIBRARY = STATIC.parent
MADE_OF = "<!-- made of {digest} -->\n"

__all__ = ["DEFAULT", "build_site"]


def build_site(root: Path, folder: Path, only: tuple[str, ...] = (), *, alone: bool = True) -> list[Path]:
    """Write the pages that changed; returns them. With `only`, no chapter but these is run, and all are linked.

    Not `alone` they are the chapters' part of the site (`tools/site`): no page of their own, no front page.

    Raises: BookError when a chapter doesn't run through; OSError when the folder can't be written.
    """
    chapters = {
        lang: [path for path in sorted((root / "notebooks").glob("*.py")) if lang in languages_of(root, path.stem)]
        for lang in EVERY_LANGUAGE
    }
    player = STATIC.iterdir() if alone else ()
    library = _digest(*LIBRARY.rglob("*.py"), *LIBRARY.rglob("*.mo"), *player, *HERE.iterdir())
    written = []
    for lang, masters in chapters.items():
        ways = [Way(path.stem, title_of(_notebook(root, path, lang))) for path in masters]
        for path in masters:
            target = folder / lang / f"{path.stem}.html"
            digest = _digest(path, catalogue_of(root, lang, path.stem), salt=f"{library} {ways} {alone}")
            if (only and path.stem not in only) or _is_made_of(target, digest):
                continue
            print(f"{lang}: course/{path.stem} is run", flush=True)  # for minutes, all together
            book = _run(root, path, lang)
            text = chapter_page(book, path.stem, lang, ways, languages_of(root, path.stem), alone=alone)
            written.append(_write(target, MADE_OF.format(digest=digest) + text))
        if not alone:
            continue
        front = folder / "index.html" if lang == "en" else folder / lang / "index.html"
        below = "en/" if lang == "en" else ""
        text = front_page(lang, _map(lang, {way.name: f"{below}{way.name}.html" for way in ways}))
        if not front.exists() or front.read_text(encoding="utf-8") != text:
            written.append(_write(front, text))
    return written


def _map(lang: str, links: dict[str, str]) -> str:
    with speaking(lang):
        return CourseMap(Progress(), "", lang, links).html()


def _notebook(root: Path, path: Path, lang: str) -> Any:
    """The chapter without outputs, in a language."""
    return in_language(root, path.stem, to_notebook(read_master(path)), lang)


def _run(root: Path, path: Path, lang: str) -> Any:
    with _scenes():
        book = executed(read_master(path), path.parent, lang)
    return presented(root, path.stem, book, lang)


@contextmanager
def _scenes() -> Iterator[None]:
    """In this block a kernel that starts puts the Scenes beside the pictures."""
    os.environ[WITH_SCENES] = "1"
    try:
        yield
    finally:
        del os.environ[WITH_SCENES]


def _digest(*paths: Path, salt: str = "") -> str:
    known = hashlib.sha256(salt.encode())
    for path in sorted(path for path in paths if path.is_file()):
        known.update(path.read_bytes())
    return known.hexdigest()[:16]


def _is_made_of(target: Path, digest: str) -> bool:
    head = MADE_OF.format(digest=digest)
    return target.exists() and target.read_text(encoding="utf-8").startswith(head)


def _write(target: Path, text: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target
