"""A notebook with outputs → one HTML page, as text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from seegrad.display.offline import markdown
from seegrad.display.page import asset
from seegrad.display.widget import SCENE
from seegrad.words.languages import marked, translate

ANSI = re.compile(r"\x1b\[[0-9;]*m")
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
        "Nine chapters that can be read and played with in this browser. To run their code, open the notebooks in "
        "JupyterLab: `make lab`."
    ),
    "pages": marked("Pages"),
}

PAGE = """<!doctype html>
<html lang="{lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>
{css}
</style>
</head>
<body>
<nav aria-label="{pages}">{links}</nav>
<main>
{body}
</main>
{script}
</body>
</html>
"""


SCRIPT = """<script>
{player}
for (const here of document.querySelectorAll(".picture")) {{
  const scene = JSON.parse(here.querySelector("script").textContent);
  here.replaceChildren();
  seegrad.play(here, scene);
}}
</script>"""


@dataclass(frozen=True, slots=True)
class Way:
    """A page that others link to."""

    name: str
    title: str


def title_of(book: Any) -> str:
    """The first heading of a notebook, as plain text."""
    found = HEADING.search("\n".join(cell.source for cell in book.cells if cell.cell_type == "markdown"))
    return found[1].replace("`", "") if found else ""


def chapter_page(book: Any, name: str, lang: str, ways: Sequence[Way], languages: Sequence[str]) -> str:
    """The page of an executed chapter. `ways` are all chapters in this language, `languages` those of this chapter."""
    body = "\n".join(part for cell in book.cells for part in _cell(cell))
    known = {way.name for way in ways}
    plays = SCRIPT.format(player=asset("standalone.js")) if 'class="picture"' in body else ""
    links = _links(name, lang, ways, languages)
    return _page(title_of(book), lang, links, NO_HEADER.sub(r"<td\1></td>", _relinked(body, known)), plays)


def front_page(lang: str, course_map: str) -> str:
    """The page with the map of the course."""
    title = translate(WORDS["course"], lang)
    other = {"en": ("zh_CN", "zh_CN/index.html"), "zh_CN": ("en", "../index.html")}[lang]
    body = f"<h1>{escape(title)}</h1>\n{markdown(translate(WORDS['lead'], lang))}\n{course_map}"
    return _page(title, lang, _language_link(*other), body, "")


def _page(title: str, lang: str, links: str, body: str, script: str) -> str:
    return PAGE.format(
        lang=lang.replace("_", "-"),
        title=escape(title),
        css=asset("site.css") + (asset("widget.css") if script else ""),
        pages=escape(translate(WORDS["pages"], lang)),
        links=links,
        body=body,
        script=script,
    )


def _links(name: str, lang: str, ways: Sequence[Way], languages: Sequence[str]) -> str:
    """Up to the map, to the chapters beside this one, to this one in the other languages."""
    front = "../index.html" if lang == "en" else "index.html"
    here = [way.name for way in ways].index(name)
    links = [f'<a href="{front}">{escape(translate(WORDS["map"], lang))}</a>']
    for k, word in ((here - 1, "before"), (here + 1, "after")):
        if 0 <= k < len(ways):
            said = f"{translate(WORDS[word], lang)}: {ways[k].title}"
            links.append(f'<a href="{ways[k].name}.html">{escape(said)}</a>')
    links += [_language_link(other, f"../{other}/{name}.html") for other in languages if other != lang]
    return "\n".join(links)


def _language_link(lang: str, to: str) -> str:
    tag = lang.replace("_", "-")
    return f'<a href="{to}" lang="{tag}" hreflang="{tag}">{NAMES[lang]}</a>'


def _cell(cell: Any) -> list[str]:
    if cell.cell_type == "markdown":
        return [markdown(cell.source, exclude_anchor_links=True)]
    if cell.cell_type != "code" or not cell.source.strip():
        return []
    return [_code(cell.source), *(_output(output) for output in cell.outputs)]


def _code(source: str) -> str:
    tokens = highlight(source, get_lexer_by_name("ipython3"), HtmlFormatter(nowrap=True)).rstrip("\n")
    return f'<pre class="in"><code>{tokens}</code></pre>'


def _output(output: Any) -> str:
    if output.output_type == "stream":
        return f"<pre>{escape(_plain(output.text))}</pre>"
    if output.output_type == "error":
        return f'<pre class="er">{escape(_plain(chr(10).join(output.traceback)))}</pre>'
    data = output.data
    if SCENE in data:
        return _picture(data)
    if "text/html" in data:
        return f'<div class="out">{data["text/html"]}</div>'
    if "text/markdown" in data:
        return f'<div class="out">{markdown(data["text/markdown"], exclude_anchor_links=True)}</div>'
    return f"<pre>{escape(_plain(data.get('text/plain', '')))}</pre>"


def _plain(text: str) -> str:
    """The text without its terminal's colours."""
    return ANSI.sub("", text)


def _picture(data: Any) -> str:
    """The Scene for the player, and the steps as a table where no script runs."""
    scene = json.dumps(data[SCENE], ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    table = escape(data.get("text/plain", ""))
    return f'<div class="picture"><pre>{table}</pre><script type="application/json">{scene}</script></div>'


def _relinked(body: str, known: set[str]) -> str:
    """Links to notebooks lead to pages; links to files that aren't here are plain words."""

    def relink(found: re.Match[str]) -> str:
        to = found["to"]
        chapter = NOTEBOOK.fullmatch(to)
        if chapter and chapter["name"] in known and "release/" not in to and "source/" not in to:
            return f'<a href="{chapter["name"]}.html{chapter["anchor"] or ""}"{found["more"]}>{found["said"]}</a>'
        return found[0] if to.startswith(STAYS) else found["said"]

    return LINK.sub(relink, body)
