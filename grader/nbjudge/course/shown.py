"""An executed notebook → what may be shown: outputs that can't act, no hidden test, widgets as pictures.

The outputs are whatever the student's process sent; the traceback of a failing test quotes the test. Both end up in
the feedback page and, next to the grades of everybody, in the instructor's formgrader.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import nh3
from jinja2 import pass_context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

JsonCell = dict[str, Any]
BEGIN, END = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"
IMAGES = ("image/png", "image/jpeg", "image/gif")
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
QUOTED = re.compile(r"^\s*(?:-+>\s*)?(?:\d+\s?)?(?:\|\s)?")  # what IPython and Python put before a quoted source line
KEPT_METADATA = ("kernelspec", "language_info")
LONG_ENOUGH = 8  # characters: a shorter hidden line may stand inside an innocent sentence
NOT_SHOWN = "(this output can't be shown here)"


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


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
PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp|svg\+xml);(base64|utf8|charset=utf-8),?[^\s\"'<>]*", re.IGNORECASE)
OWN_FILE = re.compile(r"(?!.*\.\.)[\w-][\w./-]*")
LIVE_TEX = re.compile(r"\\\s*(href|url|class|cssId|style|require|csname|unicode|data|html[A-Za-z]*)(?![A-Za-z])")


# --- outputs ---------------------------------------------------------------------------------------------------------


def safe_outputs(outputs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same outputs, rebuilt from what can be shown without acting; anything odd is left out."""
    return [safe for output in outputs if (safe := _safe_output(output)) is not None]


def _safe_output(output: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return {"output_type": "stream", "name": name, "text": _text(output.get("text"))}
    if kind == "error":
        return {
            "output_type": "error",
            "ename": _text(output.get("ename")),
            "evalue": _text(output.get("evalue")),
            "traceback": [_text(line) for line in output.get("traceback") or ()],
        }
    if kind in ("display_data", "execute_result"):
        safe = {"output_type": kind, "data": _safe_bundle(output.get("data") or {}), "metadata": {}}
        if kind == "execute_result":
            count = output.get("execution_count")
            safe["execution_count"] = count if isinstance(count, int) else None
        return safe
    return None


def _safe_bundle(data: Mapping[str, Any]) -> dict[str, str]:
    """One representation to look at, and the text. Widget views, scripts and unknown types are dropped."""
    bundle: dict[str, str] = {}
    if "text/html" in data:
        bundle["text/html"] = clean_html(_text(data["text/html"]))
    elif "text/markdown" in data:
        bundle["text/html"] = render_markdown(_text(data["text/markdown"]))
    elif "image/svg+xml" in data:
        bundle["text/html"] = picture(_text(data["image/svg+xml"]))
    for mime in IMAGES:
        if mime in data and (encoded := checked_base64(_text(data[mime]))):
            bundle[mime] = encoded
    if "text/latex" in data:
        bundle["text/latex"] = without_live_tex(_text(data["text/latex"]))
    if "text/plain" in data or not bundle:
        bundle["text/plain"] = _text(data.get("text/plain", NOT_SHOWN))
    return bundle


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "".join(_text(part) for part in value)
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text.encode("utf-8", "replace").decode("utf-8")


# --- cells -----------------------------------------------------------------------------------------------------------


def presentable(document: Mapping[str, Any]) -> dict[str, Any]:
    """The notebook as a page may show it; Markdown is cleaned later, by the filter `safe_markdown`."""
    cells = [_presentable_cell(cell) for cell in document["cells"]]
    metadata = {name: document["metadata"][name] for name in KEPT_METADATA if name in document["metadata"]}
    return {**document, "cells": cells, "metadata": metadata}


def _presentable_cell(cell: Mapping[str, Any]) -> JsonCell:
    kept = {name: value for name, value in cell["metadata"].items() if name == "nbgrader"}
    shown = {**cell, "metadata": kept}
    if cell["cell_type"] == "code":
        return shown | {"outputs": safe_outputs(cell["outputs"])}
    if cell["cell_type"] == "raw":  # a template would insert a raw cell as it is
        return shown | {"cell_type": "markdown", "source": f"<pre>{html.escape(cell['source'])}</pre>"}
    return shown


@pass_context
def safe_markdown(context: Any, source: str) -> str:
    """The `markdown2html` filter of the pages: nbconvert's rendering, cleaned."""
    return render_markdown(source, context.get("cell", {}).get("attachments"))


# --- hidden tests ----------------------------------------------------------------------------------------------------


def without_hidden_tests(document: Mapping[str, Any], begin: str = BEGIN, end: str = END) -> dict[str, Any]:
    """The notebook as a student may see it: no hidden line in a test's source, nor quoted in any output.

    A line that also stands in the open elsewhere (`import torch`) isn't a secret and stays.
    """
    public, hidden = _split_lines(document["cells"], begin, end)
    secrets = frozenset(hidden - public)
    return {**document, "cells": [_shown_to_student(cell, secrets, begin, end) for cell in document["cells"]]}


def _split_lines(cells: Iterable[Mapping[str, Any]], begin: str, end: str) -> tuple[set[str], set[str]]:
    """Stripped source lines outside and inside the hidden regions."""
    public: set[str] = set()
    hidden: set[str] = set()
    for cell in cells:
        for line, is_hidden in _marked(cell["source"], begin, end):
            (hidden if is_hidden else public).add(line.strip())
    return public, hidden


def _marked(source: str, begin: str, end: str) -> Iterator[tuple[str, bool]]:
    """Each line and whether it is hidden; the delimiters are. An unclosed region hides all that follows."""
    inside = False
    for line in source.split("\n"):
        starts, ends = begin in line, end in line
        yield line, inside or starts or ends
        inside = (inside or starts) and not ends


def _shown_to_student(cell: Mapping[str, Any], secrets: frozenset[str], begin: str, end: str) -> JsonCell:
    visible = [line for line, is_hidden in _marked(cell["source"], begin, end) if not is_hidden]
    shown = {**cell, "source": "\n".join(visible)}
    if cell["cell_type"] == "code" and secrets:
        shown["outputs"] = [_without(output, secrets) for output in cell["outputs"]]
    return shown


def _without(output: Mapping[str, Any], secrets: frozenset[str]) -> dict[str, Any]:
    """The output without the lines that quote a hidden one."""
    if output["output_type"] == "stream":
        return {**output, "text": _censored(output["text"], secrets)}
    if output["output_type"] == "error":
        traceback = [text for part in output["traceback"] if (text := _censored(part, secrets)) or not part]
        return {**output, "evalue": _censored(output["evalue"], secrets), "traceback": traceback}
    data = {
        mime: _censored(content, secrets) if mime.startswith("text/") else content
        for mime, content in output["data"].items()
    }
    return {**output, "data": data}


def _censored(text: str, secrets: frozenset[str]) -> str:
    return "\n".join(line for line in text.split("\n") if not _quotes(line, secrets))


def _quotes(line: str, secrets: frozenset[str]) -> bool:
    plain = html.unescape(ANSI.sub("", line))
    if not plain.strip():
        return False
    return QUOTED.sub("", plain).strip() in secrets or any(
        len(secret) >= LONG_ENOUGH and secret in plain for secret in secrets
    )


# --- HTML and Markdown of untrusted origin: no script, no form, no overlay, no request ------------------------------


def clean_html(html: str) -> str:
    """`html` with only what shows something; pictures from data or beside the page, links that a reader may follow.

    The parser writes coded letters plainly and leaves comments out, so that no command of MathJax hides in either.

    >>> clean_html('<b onclick="x()">5</b><script>x()</script><img src=x onerror=y()>')
    '<b>5</b><img src="x">'
    """
    cleaned = nh3.clean(
        html,
        tags=TAGS,
        clean_content_tags=EMPTIED,
        attributes={"*": ATTRIBUTES, "a": {"href"}, "img": {"src"}},
        attribute_filter=_allowed,
        filter_style_properties=PROPERTIES,
        url_schemes={"http", "https", "mailto", "data"},
        link_rel=None,
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


def _allowed(_tag: str, name: str, value: str) -> str | None:
    """The value of an attribute that is allowed at all, where it leads nowhere that it shouldn't."""
    if name == "href":
        return value if LINK.fullmatch(value.strip()) else None
    if name == "src":
        return value if PICTURE.fullmatch(value.strip()) or OWN_FILE.fullmatch(value.strip()) else None
    return value
