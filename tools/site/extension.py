"""What Sphinx learns for the site: programs to flip, chapters, the gallery's cards, search in Chinese."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.nodes import Node
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish
from sphinx.util.docutils import SphinxDirective

from seegrad.words.languages import CHINESE, catalogue, marked, translate

HAN = "\u4e00-\u9fff"
SPLIT = """
function splitQuery(query) {
  const found = [];
  for (const part of query.toLowerCase().match(/[HAN]+|[^HAN\\W]+/gu) ?? []) {
    const step = /[HAN]/.test(part) && part.length > 1 ? 2 : part.length;
    for (let k = 0; k + step <= part.length; k++) found.push(part.slice(k, k + step));
  }
  return found;
}
""".replace("HAN", HAN)
WRAPPED = re.compile(f"(?<=[{CHINESE}])\n(?=[{CHINESE}])")
"""Where a paragraph's line ends in its file: a browser makes a blank of it, which Chinese doesn't have."""

SEARCH_SCRIPT = "search.js"
PICTURES = "pictures"
MISSING = {
    'class="caption" role="heading"': 'class="caption" role="heading" aria-level="2"',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',  # it scrolls, so keys must reach it
}
ICON_NAME = re.compile(r"(<symbol[^>]*>)\s*<title>[^<]*</title>")  # in English, where the button around it has words
NO_HEADER = re.compile(r'<th class="head[^"]*"><p></p></th>')  # a corner of a table names no column
HEADING = re.compile("<h2>(.*?)</h2>", re.DOTALL)
CODE = re.compile("<code>(.*?)</code>")
STEPS = re.compile('(<pre class="steps">.*?</pre>)', re.DOTALL)
PART = re.compile('<section id="([^"]*)">\\s*<h2>(.*?)<a class="headerlink"', re.DOTALL)
CHAPTERS = "course/"
RESULTS = '<div id="search-results"></div>'
FIELD = '<form action="" role="search" aria-label="{said}"><input type="search" name="q" aria-label="{said}"></form>'
SEARCH = marked("Search this site")
IN_CHAPTER = marked("In this chapter")
ASKED = (marked("Next"), marked("Previous"), marked("Home"), marked("Back to top"), marked("Made with "))
"""What the theme asks Sphinx's own catalogue for, which hasn't got it."""
UNASKED = (
    marked("Skip to content"),
    marked("Toggle navigation of "),
    marked("Toggle site navigation sidebar"),
    marked("Toggle table of contents sidebar"),
    marked("Toggle Light / Dark / Auto color theme"),
)
"""What the theme writes in English without asking."""
LABELS = {"sidebar-drawer": marked("All pages"), "toc-drawer": marked("On this page")}


class SearchPairs(SearchEnglish):
    """English words, and Chinese by pairs of characters: no dictionary is needed, here or in the browser."""

    lang = "zh"
    language_name = "English"  # whose stemmer's words in Latin letters go through, here and in the browser
    js_splitter_code = SPLIT

    def split(self, text: str) -> list[str]:
        """The words that are looked up."""
        found: list[str] = []
        for part in re.findall(f"[{HAN}]+|[^{HAN}\\W]+", text):
            found += pairs(part) if re.match(f"[{HAN}]", part) else [part]
        return found

    def word_filter(self, word: str) -> bool:
        """Is it worth an entry?"""
        return bool(re.match(f"[{HAN}]", word)) or super().word_filter(word)


def pairs(text: str) -> list[str]:
    """Each character, and each with the one after it.

    >>> pairs("叶子张")
    ['叶', '子', '张', '叶子', '子张']
    """
    return [*text, *(text[k : k + 2] for k in range(len(text) - 1))]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the directives put in: a name → HTML."""

    flip: Callable[[str], str]
    chapter: Callable[[str], str]
    cards: Callable[[str], str]
    scripts: tuple[str, ...]


class _Inserted(SphinxDirective):
    """One block of HTML."""

    required_arguments = 1
    parts: Parts

    def run(self) -> list[Node]:
        made = getattr(self.parts, self.name)
        before, *parts = HEADING.split(made(*self.arguments))
        return [*_html(before), *(self._section(*each) for each in zip(parts[::2], parts[1::2], strict=True))]

    def _section(self, title: str, text: str) -> nodes.section:
        """A part of a chapter, as a page's own: it is led to from the page's margin, and found by its title."""
        words = [unescape(re.sub("<[^>]*>", "", each)) for each in CODE.split(title)]
        inline = [nodes.literal(text=each) if k % 2 else nodes.Text(each) for k, each in enumerate(words)]
        section = nodes.section("", nodes.title("", "", *inline), *_html(text))
        section["names"].append(nodes.fully_normalize_name("".join(words)))
        self.state.document.note_implicit_target(section, section)
        return section


def _html(text: str) -> list[nodes.raw]:
    """What every picture says of its steps in the same words stands in the page, and no search looks at it."""
    made = [nodes.raw("", part, format="html") for part in STEPS.split(text)]
    for steps in made[1::2]:
        steps["classes"].append("no-search")
    return made


def learn(app: Sphinx, parts: Parts) -> None:
    """Teach an application all of it."""
    for name in ("flip", "chapter", "cards"):
        app.add_directive(name, type("_Inserted", (_Inserted,), {"parts": parts}))
    app.add_search_language(SearchPairs)
    app.translator.add_fallback(catalogue(str(app.config.language)))
    app.connect("source-read", _read)
    app.connect("html-page-context", lambda *given: _dressed(parts, *given))


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    """A page's turn has come: all that is in it is made next."""
    print(f"{app.config.language}: {page}", flush=True)
    source[0] = WRAPPED.sub("", source[0])


def _dressed(parts: Parts, app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Pages with pictures have the player; each page leads to itself in the other language, where it is there."""
    del template, tree
    body = context.get("body", "")
    if 'class="program ' in body or 'class="picture"' in body:
        for script in parts.scripts:
            app.add_js_file(script, loading_method="defer")
    if page.startswith(CHAPTERS):
        context["body"] = with_parts(body, str(app.config.language))
    if page == "search":
        app.add_js_file(SEARCH_SCRIPT, loading_method="defer")  # after Sphinx's own, before it begins
    known = context["other_pages"]
    there = page if page in known else "index"
    context["other_link"] = f"{context['other_prefix']}{there}.html"


def with_parts(body: str, lang: str) -> str:
    """A chapter that says at once where its parts are: a margin that lists them only a wide window has.

    >>> with_parts('<h1>A</h1><section id="b"><h2>B<a class="headerlink" href="#b">¶</a></h2></section>', "en")[:101]
    '<h1>A</h1><details class="sw-parts"><summary>In this chapter</summary><ul><li><a href="#b">B</a></li>'
    """
    links = "".join(f'<li><a href="#{place}">{title}</a></li>' for place, title in PART.findall(body))
    head = f"<summary>{translate(IN_CHAPTER, lang)}</summary>"
    made = f'<details class="sw-parts">{head}<ul>{links}</ul></details>' if links else ""
    return body.replace("</h1>", f"</h1>{made}", 1)


def cards(entries: list[tuple[str, str]]) -> str:
    """Links with pictures: (name, title)."""
    made = (
        f'<li><a href="{name}.html"><img src="../_static/{PICTURES}/{name}.svg" alt="" loading="lazy">'
        f"{escape(title)}</a></li>"
        for name, title in entries
    )
    return f'<ul class="sw-cards">{"".join(made)}</ul>'


def mended(page: str, lang: str) -> str:
    """A page as Sphinx and its theme write it, with what a screen reader misses there.

    >>> mended('<p class="caption" role="heading"> <aside class="toc-drawer">', "en")
    '<p class="caption" role="heading" aria-level="2"> <aside aria-label="On this page" class="toc-drawer">'
    """
    for wrong, right in MISSING.items():
        page = page.replace(wrong, right)
    said = translate(SEARCH, lang)
    page = page.replace(RESULTS, f"<h1>{said}</h1>{FIELD.format(said=said)}{RESULTS}")
    page = ICON_NAME.sub(r"\1", NO_HEADER.sub("<td></td>", page))
    for words in UNASKED:
        page = page.replace(words, translate(words, lang))
    for part, words in LABELS.items():
        page = page.replace(f'<aside class="{part}', f'<aside aria-label="{translate(words, lang)}" class="{part}')
    return page


def titled(path: Path) -> str:
    """A chapter's HTML without its own first heading, which the page has."""
    return re.sub(r"<h1[^>]*>.*?</h1>", "", path.read_text(encoding="utf-8"), count=1, flags=re.DOTALL)
