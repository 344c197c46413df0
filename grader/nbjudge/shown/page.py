"""INSIDE the sandbox: an executed notebook → the whole HTML page, by nbconvert and the course's own template.

nbconvert highlights, renders, colours and parses the page once more; for text that is made for it each of these takes
minutes. So every piece may take so long and all of them together too; what takes longer is shown as it was typed.
"""

from __future__ import annotations

import base64
import html
import time
from collections.abc import Callable, Mapping
from typing import Any

import nbformat
from jinja2 import DictLoader, pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.filters import Highlight2HTML, ansi2html
from traitlets.config import Config

from nbjudge.shown.hidden import without_hidden_tests
from nbjudge.shown.markup import CONVERSIONS, clean_html, preformatted, render_markdown
from nbjudge.shown.outputs import Shower
from nbjudge.shown.patience import NotShown, patience
from nbjudge.shown.pictures import Pictures
from nbjudge.shown.text import ANSI, overprinted

PIECE_S, PIECES_S = 0.5, 3.0  # of CPU time: one piece, all of them
CODE_CHARS = 100_000
COLOURING = 50_000_000  # codes times characters: what ansi2html copies
KEPT_METADATA = ("kernelspec", "language_info")
LEXER = "ipython3"
SPENT = "what stands before it took too long"
CONTAINED = '<div style="contain:content;overflow:auto">{}</div>'  # nothing in it is drawn outside of it

NOBODY_ASKED = {"mathjax.html.j2": "{% macro mathjax(url='') %}{% endmacro %}"}
"""In the place of nbconvert's own, which loads MathJax from a server elsewhere: that would learn who reads whose work,
and where there is no such server the page waits. A formula stands as it was typed."""


class Clean(str):
    """HTML that this file has made: whoever cleans it again takes seconds and changes nothing."""

    __slots__ = ()


class Pieces:
    """The pieces of one page: what each takes is counted, and what isn't converted is remembered."""

    def __init__(self, seconds: float, pictures: Pictures) -> None:
        self._left_s = seconds
        self.pictures = pictures
        self.withheld: list[str] = []

    def made(self, make: Callable[[str], str], source: str) -> str:
        """What `make` makes of it; raises `NotShown`."""
        if self._left_s <= 0:
            raise NotShown(SPENT)
        before = time.process_time()
        try:
            with patience(PIECE_S):
                return make(source)
        except NotShown:
            raise
        except Exception as error:  # of a library, on text that its author never thought of: the rest has its page
            raise NotShown(f"it can't be converted ({type(error).__name__}: {str(error)[:100]})") from None
        finally:
            self._left_s -= time.process_time() - before

    def or_plain(self, make: Callable[[str], str], source: str) -> Clean:
        """What `make` makes of it, or the text as it was typed."""
        try:
            return Clean(self.made(make, source))
        except NotShown as error:
            self.withheld.append(str(error))
            return Clean(preformatted(source))

    def convert(self, kind: str, source: str) -> str:
        """HTML of one output; raises `NotShown`."""
        return CONTAINED.format(self.made(lambda text: CONVERSIONS[kind](text, self.pictures), source))


def page(asked: Mapping[str, Any], seconds: float) -> tuple[str, list[str]]:
    """The page, and what isn't shown in it.

    `asked`: the `notebook`, nbconvert's `resources`, the `config` of its HTMLExporter, and `hide`, between which two
    marks a line is hidden, or nothing; `files`, the pictures beside the notebook, as base64.
    """
    pictures = Pictures({name: base64.b64decode(data) for name, data in asked.get("files", {}).items()})
    pieces = Pieces(min(PIECES_S, seconds), pictures)
    shower = Shower(pieces.convert, pictures)
    document = presentable(asked["notebook"], shower)
    if asked.get("hide"):
        document = without_hidden_tests(document, *asked["hide"])
    config = {**asked["config"], "filters": _filters(pieces)}
    loaders = [DictLoader(NOBODY_ASKED)]
    exporter = HTMLExporter(config=Config({"HTMLExporter": config}), extra_loaders=loaders)  # type: ignore[no-untyped-call]  # nbconvert has few types
    exporter._preprocessors = []  # what they do was done, here or by the one who asks
    node = nbformat.from_dict(document)  # type: ignore[no-untyped-call]  # nbformat has no types
    made, _ = exporter.from_notebook_node(node, dict(asked["resources"]))
    return str(made), [*shower.withheld, *pieces.withheld]


def _filters(pieces: Pieces) -> dict[str, Any]:
    """The template's filters that take text of the student's."""

    @pass_context
    def markdown2html(context: Any, source: str, attachments: Any = None) -> str:
        """Our template says the cell's attachments; in nbconvert's the cell is part of the context."""
        pasted = attachments or context.get("cell", {}).get("attachments")
        return pieces.or_plain(lambda text: CONTAINED.format(render_markdown(text, pieces.pictures, pasted)), source)

    def highlight_code(source: str, **_said: Any) -> str:  # a cell's metadata names no other language
        return pieces.or_plain(_highlighted, source)

    def coloured(source: Any) -> str:
        return pieces.or_plain(_coloured, str(source))

    def cleaned(source: Any) -> str:
        return source if isinstance(source, Clean) else pieces.or_plain(clean_html, str(source))

    return {
        "markdown2html": markdown2html,
        "highlight_code": highlight_code,
        "ansi2html": coloured,
        "clean_html": cleaned,
        "strip_files_prefix": _as_it_is,  # of notebooks of 2012; it takes minutes for a text of brackets
    }


def _as_it_is(source: str) -> str:
    return source


def _highlighted(source: str) -> str:
    if len(source) > CODE_CHARS:
        raise NotShown(f"its code is longer than {CODE_CHARS // 1000} kB")
    return str(Highlight2HTML(pygments_lexer=LEXER)(source))  # type: ignore[no-untyped-call]  # the same


def _coloured(source: str) -> str:
    if source.count("\x1b") * len(source) > COLOURING:
        return html.escape(ANSI.sub("", source).replace("\x1b", ""))
    return str(ansi2html(source))  # type: ignore[no-untyped-call]  # the same


# --- cells -----------------------------------------------------------------------------------------------------------


def presentable(document: Mapping[str, Any], shower: Shower) -> dict[str, Any]:
    """The notebook as a page may show it; Markdown is rendered and cleaned later, by the template's filter."""
    cells = [_presentable_cell(cell, shower) for cell in document["cells"]]
    metadata = {name: document["metadata"][name] for name in KEPT_METADATA if name in document["metadata"]}
    return {**document, "cells": cells, "metadata": metadata}


def _presentable_cell(cell: Mapping[str, Any], shower: Shower) -> dict[str, Any]:
    kept = {name: value for name, value in cell["metadata"].items() if name == "nbgrader"}
    shown = {**cell, "metadata": kept}
    if cell["cell_type"] == "code":
        return shown | {"outputs": [_overprinted(output) for output in shower.safe_outputs(cell["outputs"])]}
    if cell["cell_type"] == "raw":  # a template would insert a raw cell as it is
        return shown | {"cell_type": "markdown", "source": preformatted(cell["source"])}
    if "attachments" in cell:
        shown["attachments"] = _texts(cell["attachments"])
    return shown


def _overprinted(output: dict[str, Any]) -> dict[str, Any]:
    return {**output, "text": overprinted(output["text"])} if output["output_type"] == "stream" else output


def _texts(attachments: Any) -> dict[str, dict[str, str]]:
    """Pictures pasted into text: what is shown of them is decided where the text is cleaned."""
    bundles = attachments if isinstance(attachments, Mapping) else {}
    return {
        name: {mime: data for mime, data in bundle.items() if isinstance(data, str)}
        for name, bundle in bundles.items()
        if isinstance(bundle, Mapping)
    }
