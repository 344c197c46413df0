"""HTML, Markdown and pictures of untrusted origin → what shows something and acts nowhere, within bounds.

No script, no form, no overlay, no request. What is larger or nested deeper than anybody writes is refused before it is
parsed: parsers take minutes for it. This runs in a confined process (`roles.scribe`), which ends what takes too long.
"""

from __future__ import annotations

import html
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import nh3
from pygments.token import STANDARD_TYPES

from nbjudge.shown.measures import TOO_LARGE
from nbjudge.shown.patience import NotShown
from nbjudge.shown.pictures import PAGE_BYTES, PAGE_FULL, Pictures
from nbjudge.shown.tex import UNCLOSED, quiet_html, unclosed_environments

HTML_CHARS = 100_000  # pictures as data aside
MARKDOWN_CHARS, RENDERED_CHARS = 100_000, 500_000
GROWTH = 20  # how much longer cleaned HTML may be than it came
NESTING = 100
TOO_DEEP = f"its HTML is nested deeper than {NESTING} levels"
OPEN_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
DATA = re.compile(r"data:image/[a-z+.-]{1,20}(;base64)?,[A-Za-z0-9+/=%._~!*();:@&$,?'-]*", re.IGNORECASE)


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


# Elements that need no end: they hold nothing, or the next one like them ends them.
NEED_NO_END = _words(
    "area base br col embed hr img input link meta param source track wbr p li dt dd tr td th thead tbody tfoot",
    "colgroup caption option optgroup rt rp",
)
# What HTML of untrusted origin may keep; what isn't named here goes.
TAGS = _words(
    "a abbr b blockquote br caption code col colgroup dd del details div dl dt em figcaption figure h1 h2 h3 h4 h5 h6",
    "hr i img ins kbd li mark ol p pre q s samp small span strong sub summary sup table tbody td tfoot th thead tr",
    "u ul",
)
EMPTIED = _words("script style template noscript")  # these go with all that is in them
ATTRIBUTES = _words("align alt class colspan dir height lang open rowspan scope span start style title valign width")
PROPERTIES = _words(
    "background-color border border-bottom border-collapse border-color border-left border-radius border-right",
    "border-spacing border-top color display font-family font-size font-style font-variant font-weight height",
    "line-height list-style-type max-width min-width overflow-x padding text-align text-decoration vertical-align",
    "white-space width",
)
LINK = re.compile(r"(https?://|mailto:|#)[^\s]*", re.IGNORECASE)
# What colours code. No other class is kept: the pages' own styles and scripts (formgrader's among them) go by classes.
CLASSES = frozenset({"highlight", *STANDARD_TYPES.values()} - {""})


def clean_html(source: str, pictures: Pictures | None = None) -> str:
    """`source` with only what shows something; pictures from data or beside the page, links that a reader may follow.

    The parser writes coded letters plainly and leaves comments out, so that no command of MathJax hides in either.

    Raises:
        NotShown: it is larger, or nested deeper, than is shown.

    >>> clean_html('<b onclick="x()">5</b><script>x()</script><img src=x onerror=y()>')
    '<b>5</b><img src="x">'
    """
    demand_small(source)
    return _cleaned(source, pictures)


def _cleaned(source: str, pictures: Pictures | None) -> str:
    frames = _Frames(pictures or Pictures())
    cleaned = nh3.clean(
        source,
        tags=TAGS,
        clean_content_tags=EMPTIED,
        attributes={"*": ATTRIBUTES, "a": {"href"}, "img": {"src"}},
        attribute_filter=frames.allowed,
        filter_style_properties=PROPERTIES,
        url_schemes={"http", "https", "mailto", "data"},
        link_rel=None,
    )
    if len(cleaned) > GROWTH * HTML_CHARS and len(cleaned) > 2 * len(source):
        raise NotShown("it grows when it is cleaned")
    return frames.hung(quiet_html(cleaned))


def demand_small(source: str, most_chars: int = HTML_CHARS) -> None:
    """Raises `NotShown` for HTML that nobody writes: longer than that, or nested deeper than NESTING.

    >>> demand_small("<p>" * 500)
    >>> demand_small("<div>" * 500)
    Traceback (most recent call last):
    nbjudge.shown.patience.NotShown: its HTML is nested deeper than 100 levels
    """
    if len(source) > most_chars and len(DATA.sub("", source)) > most_chars:
        raise NotShown(TOO_LARGE.format(kind="HTML", limit=most_chars // 1000))
    open_ones: dict[str, int] = {}
    depth = 0
    for match in OPEN_TAG.finditer(source):
        name = match[2].lower()
        if name in NEED_NO_END:
            continue
        if not match[1]:
            open_ones[name] = open_ones.get(name, 0) + 1
            depth += 1
        elif open_ones.get(name):
            open_ones[name] -= 1
            depth -= 1
        if depth > NESTING:
            raise NotShown(TOO_DEEP)


def render_markdown(source: str, pictures: Pictures | None = None, attachments: Mapping[str, Any] | None = None) -> str:
    """Markdown with its math, as nbconvert renders it, then cleaned.

    Raises:
        NotShown: it is larger, or nested deeper, than is shown.
    """
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    if (trouble := markdown_trouble(source)) is not None:
        raise NotShown(trouble)
    renderer = IPythonRenderer(escape=False, attachments=dict(attachments or {}), exclude_anchor_links=True)
    rendered = MarkdownWithMath(renderer=renderer).render(source)
    if len(rendered) > 2 * PAGE_BYTES:  # a pasted picture that is named again and again
        raise NotShown(PAGE_FULL)
    demand_small(rendered, RENDERED_CHARS)
    return _cleaned(rendered, pictures)


def markdown_trouble(source: str) -> str | None:
    """Why this Markdown isn't rendered, as a clause: it is too large, or has formulas without an end."""
    if len(source) > MARKDOWN_CHARS and len(DATA.sub("", source)) > MARKDOWN_CHARS:
        return TOO_LARGE.format(kind="Markdown", limit=MARKDOWN_CHARS // 1000)
    if unclosed_environments(source) > UNCLOSED:
        return f"more than {UNCLOSED} of its LaTeX environments have no end"
    return None


def picture(svg: str, pictures: Pictures | None = None) -> str:
    """An SVG as a picture; raises `NotShown` where it isn't one, or drawing it would keep a browser busy."""
    return f'<img src="{(pictures or Pictures()).drawing(svg)}" alt="picture">'


class _Frames:
    """The sources of pictures in one text: taken out before it is cleaned, and put back when they have been measured.

    An attribute's filter is called from the parser, where nothing can be raised and patience doesn't end.
    """

    def __init__(self, pictures: Pictures) -> None:
        self._pictures = pictures
        self._sources: list[str] = []
        self._mark = f"picture-{secrets.token_hex(8)}-"

    def allowed(self, _tag: str, name: str, value: str) -> str | None:
        """The value of an attribute that is allowed at all, where it leads nowhere that it shouldn't."""
        if name == "class":
            return " ".join(CLASSES.intersection(value.split())) or None
        if name == "href":
            return value if LINK.fullmatch(value.strip()) else None
        if name == "src":
            if not self._pictures.may_show(value.strip()):
                return None
            self._sources.append(value.strip())
            return f"{self._mark}{len(self._sources) - 1}."
        return value

    def hung(self, cleaned: str) -> str:
        """With the pictures in their places."""
        return re.sub(rf"{self._mark}(\d+)\.", self._source, cleaned)

    def _source(self, match: re.Match[str]) -> str:
        return self._pictures.source(self._sources[int(match[1])])


def preformatted(source: str) -> str:
    """Text as it was typed."""
    return f"<pre>{html.escape(source)}</pre>"


CONVERSIONS: Mapping[str, Callable[..., str]] = {
    "html": clean_html,
    "markdown": render_markdown,
    "svg": picture,
}
