"""`make site` → build/site: everything there is to read, in two languages, for any static host.

::

    tools/course ─ chapters, run ─▶ build/site-parts/course ─┐
    docs, docs/site, docstrings ───────────────────────────┴─ sources ─▶ Sphinx ─▶ build/site, build/site/zh_CN

    python -m tools.site [DIR] [--only NAME …] [--root ROOT]
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.course.masters import BookError
from tools.course.offline import build_site
from tools.site.built import build
from tools.words.entries import EVERY_LANGUAGE

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = Path("build", "site")
PARTS = Path("build", "site-parts")


def main(argv: Sequence[str] | None = None) -> int:
    """Build all of it; 1 where a chapter, a program or a link isn't as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", metavar="DIR", type=Path, nargs="?", default=DEFAULT)
    parser.add_argument("--only", metavar="CHAPTER", nargs="*", default=(), help="run no chapters but these")
    parser.add_argument("--root", type=Path, default=ROOT, help="where the repository lies")
    given = parser.parse_args(argv)
    parts = given.root / PARTS
    try:
        build_site(given.root, parts / "course", tuple(given.only), alone=False)
        shutil.rmtree(given.folder, ignore_errors=True)
        for lang in EVERY_LANGUAGE:
            build(given.root, parts, given.folder if lang == "en" else given.folder / lang, lang)
    except BookError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"wrote {given.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
