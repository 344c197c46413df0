"""A notebook with outputs → one HTML page, as text: the course's own template on the library's exporter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.filters.highlight import Highlight2HTML

from seegrad.display.offline import OfflineExporter
from seegrad.display.page import asset
from seegrad.display.widget import SCENE
from seegrad.words.languages import marked, translate
from tools.course.folds import SOURCE_WAITS, WAITS

TEMPLATE = str(Path(__file__).with_name("page.html.j2"))
HEADING = re.compile(r"^# (.*)$", re.MULTILINE)
LINK = re.compile(r'<a href="(?P<to>[^"]*)"(?P<more>[^>]*)>(?P<said>.*?)</a>', re.DOTALL)
NO_HEADER = re.compile(r"<th([^>]*)></th>")  # a corner of a table names no column
NOTEBOOK = re.compile(r"(?:.*/)?(?P<name>\d\d_\w+)\.ipynb(?P<anchor>#.*)?")
STAYS = ("#", "https://", "http://", "mailto:")
NAMES = {"en": "English", "zh_CN": "中文"}

WORDS = {
    "course": marked("Understand PyTorch autograd: the course"),
    "map": marked("Map of the course"),
    "before": marked("Previous chapter"),
    "after": marked("Next chapter"),
    "lead": marked(
        "Eleven chapters that can be read and played with in this browser. To run their code, open the notebooks in "
        "JupyterLab: `make lab`."
    ),
    "pages": marked("Pages"),
    "repair": marked("Our repair: make yours first, then open this."),
    "waiting": marked("What comes out: predict it, then open this."),
}


@dataclass(frozen=True, slots=True)
class Way:
    """A page that others link to."""

    name: str
    title: str


def title_of(book: Any) -> str:
    """The first heading of a notebook, as plain text."""
    found = HEADING.search("\n".join(cell.source for cell in book.cells if cell.cell_type == "markdown"))
    return found[1].replace("`", "") if found else ""


def chapter_page(
    book: Any, name: str, lang: str, ways: Sequence[Way], languages: Sequence[str], *, alone: bool = True
) -> str:
    """The page of an executed chapter. `ways` are all chapters in this language, `languages` those of this chapter.

    Not `alone` it is what stands in a page of the site: without head, links, player.
    """
    links = _links(name, lang, ways, languages)
    return _page(book, lang, links, known=frozenset(way.name for way in ways), alone=alone)


def front_page(lang: str, course_map: str) -> str:
    """The page with the map of the course."""
    words = f"# {translate(WORDS['course'], lang)}\n\n{translate(WORDS['lead'], lang)}"
    other = {"en": ("zh_CN", "zh_CN/index.html"), "zh_CN": ("en", "../index.html")}[lang]
    cell = nbformat.v4.new_markdown_cell(words)  # type: ignore[no-untyped-call]  # nbformat has no types
    book = nbformat.v4.new_notebook(cells=[cell])  # type: ignore[no-untyped-call]  # nbformat has no types
    return _page(book, lang, [_language_link(*other)], course_map=course_map)


def _page(book: Any, lang: str, links: list[dict[str, str]], known: frozenset[str] = frozenset(), **more: Any) -> str:
    plays = any(SCENE in output.get("data", ()) for cell in book.cells for output in cell.get("outputs", ()))
    resources = {
        "alone": True,
        "lang": lang.replace("_", "-"),
        "title": title_of(book),
        "pages": translate(WORDS["pages"], lang),
        "links": links,
        "style": asset("site.css") + (asset("widget.css") if plays else ""),
        "player": asset("standalone.js") if plays else "",
        "scene": SCENE,
        "waits": WAITS,
        "waiting": translate(WORDS["waiting"], lang),
        "source_waits": SOURCE_WAITS,
        "repair": translate(WORDS["repair"], lang),
        **more,
    }
    return str(_exporter(known).from_notebook_node(book, resources)[0])


def _exporter(known: frozenset[str]) -> OfflineExporter:
    tokens = Highlight2HTML(extra_formatter_options={"nowrap": True})  # type: ignore[no-untyped-call]  # nbconvert's
    filters = {"highlight_code": partial(_coloured, tokens), "as_pages": partial(_as_pages, known)}
    options = {"template_file": TEMPLATE, "exclude_anchor_links": True, "filters": filters}
    return OfflineExporter(**options)  # type: ignore[no-untyped-call]  # nbconvert has no types


def _coloured(tokens: Any, source: str, **more: Any) -> str:
    """A cell's code; that below a magic, which the lexer takes for text of the magic's own, is Python too."""
    magic, _, below = source.partition("\n")
    parts = (magic, below) if magic.startswith("%%") else (source,)
    return "\n".join(str(tokens(part, **more)).rstrip("\n") for part in parts)


def _links(name: str, lang: str, ways: Sequence[Way], languages: Sequence[str]) -> list[dict[str, str]]:
    """Up to the map, to the chapters beside this one, to this one in the other languages."""
    front = "../index.html" if lang == "en" else "index.html"
    here = [way.name for way in ways].index(name)
    links = [{"to": front, "said": translate(WORDS["map"], lang)}]
    for k, word in ((here - 1, "before"), (here + 1, "after")):
        if 0 <= k < len(ways):
            links.append({"to": f"{ways[k].name}.html", "said": f"{translate(WORDS[word], lang)}: {ways[k].title}"})
    return links + [_language_link(other, f"../{other}/{name}.html") for other in languages if other != lang]


def _language_link(lang: str, to: str) -> dict[str, str]:
    return {"to": to, "said": NAMES[lang], "lang": lang.replace("_", "-")}


def _as_pages(known: frozenset[str], body: str) -> str:
    """Links to notebooks lead to pages; links to files that aren't here are plain words."""

    def relink(found: re.Match[str]) -> str:
        to = found["to"]
        chapter = NOTEBOOK.fullmatch(to)
        if chapter and chapter["name"] in known and "release/" not in to and "source/" not in to:
            return f'<a href="{chapter["name"]}.html{chapter["anchor"] or ""}"{found["more"]}>{found["said"]}</a>'
        return found[0] if to.startswith(STAYS) else found["said"]

    return LINK.sub(relink, NO_HEADER.sub(r"<td\1></td>", body))
