"""HTML and Markdown of untrusted origin → HTML that can't act: no script, no form, no overlay, no request."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

import bleach
from bleach.css_sanitizer import CSSSanitizer
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

TAG_NAMES = (
    "a abbr b blockquote br caption code col colgroup dd del details div dl dt em figcaption figure h1 h2 "
    "h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp small span strong sub summary sup table tbody "
    "td tfoot th thead tr u ul"
)
ATTRIBUTE_NAMES = "align alt class colspan dir height lang open rowspan scope span start style title valign width"
CSS_NAMES = (
    "background-color border border-bottom border-collapse border-color border-left border-radius border- "
    "right border-spacing border-top color display font-family font-size font-style font-variant font- "
    "weight height line-height list-style-type max-width min-width overflow-x padding text-align text- "
    "decoration vertical-align white-space width"
)
TAGS, ATTRIBUTES, CSS = (frozenset(names.split()) for names in (TAG_NAMES, ATTRIBUTE_NAMES, CSS_NAMES))
LINK = re.compile(r"(https?://|mailto:|#)[^\s]*", re.IGNORECASE)
PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp|svg\+xml);(base64|utf8|charset=utf-8),?[^\s\"'<>]*", re.IGNORECASE)
OWN_FILE = re.compile(r"(?!.*\.\.)[\w-][\w./-]*")
INVISIBLE = re.compile(r"<(script|style|template|noscript)\b.*?(</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
CODED_LETTER = re.compile(r"&#(\d+|[xX][0-9a-fA-F]+);?")
LIVE_TEX = re.compile(r"\\\s*(href|url|class|cssId|style|require|csname|unicode|data|html[A-Za-z]*)(?![A-Za-z])")


def clean_html(html: str) -> str:
    """`html` with only what shows something; pictures from data or beside the page, links that a reader may follow.

    >>> clean_html('<b onclick="x()">5</b><script>x()</script><img src=x onerror=y()>')
    '<b>5</b><img src="x">'
    """
    visible = INVISIBLE.sub("", CODED_LETTER.sub(_plain_letter, html))
    cleaned = bleach.clean(
        visible,
        tags=TAGS,
        attributes=_allowed,
        protocols={"http", "https", "mailto", "data"},
        css_sanitizer=CSSSanitizer(allowed_css_properties=CSS),
        strip=True,
        strip_comments=True,
    )
    return without_live_tex(cleaned)


def render_markdown(source: str, attachments: Mapping[str, Any] | None = None) -> str:
    """Markdown with its math, as nbconvert renders it, then cleaned."""
    renderer = IPythonRenderer(escape=False, attachments=dict(attachments or {}), exclude_anchor_links=True)
    return clean_html(MarkdownWithMath(renderer=renderer).render(source))


def without_live_tex(text: str) -> str:
    """MathJax's commands that make links, load extensions or build other commands, made plain words.

    >>> without_live_tex(r"$\\href{javascript:x()}{y} + \\frac{1}{2}$")
    '$href{javascript:x()}{y} + \\\\frac{1}{2}$'
    """
    return LIVE_TEX.sub(lambda match: match[1], text)


def picture(svg: str) -> str:
    """An SVG as a picture: inside `<img>` its scripts don't run and its links don't lead."""
    encoded = base64.b64encode(svg.encode("utf-8", "replace")).decode("ascii")
    return f'<img src="data:image/svg+xml;base64,{encoded}" alt="picture">'


def checked_base64(data: str) -> str | None:
    """The same bytes encoded anew, or None where `data` isn't base64 (it would break out of its attribute)."""
    try:
        return base64.b64encode(base64.b64decode("".join(data.split()), validate=True)).decode("ascii")
    except (binascii.Error, ValueError):
        return None


def _allowed(tag: str, name: str, value: str) -> bool:
    if tag == "a" and name == "href":
        return bool(LINK.fullmatch(value.strip()))
    if tag == "img" and name == "src":
        return bool(PICTURE.fullmatch(value.strip()) or OWN_FILE.fullmatch(value.strip()))
    return name in ATTRIBUTES


def _plain_letter(match: re.Match[str]) -> str:
    """Letters and backslashes need no code; written plainly they can be looked for."""
    digits = match[1]
    number = int(digits[1:], 16) if digits[0] in "xX" else int(digits)
    letter = chr(number) if number < 128 else ""
    return letter if letter.isalnum() or letter == "\\" else match[0]
