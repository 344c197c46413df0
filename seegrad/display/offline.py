"""A notebook as one HTML file that needs no network: mathematics as MathML, pictures that step and ask.

`jupyter nbconvert --to seegrad NOTEBOOK.ipynb` writes it. A picture is interactive
where the notebook holds its widget's state (JupyterLab: Settings → Save Widget State Automatically), else still.
"""

from __future__ import annotations

import base64
import re
from html import escape
from typing import Any

from jinja2 import pass_context
from nbconvert.exporters.html import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from traitlets import default

from seegrad.display.page import asset

TEXT_IN_MATH = re.compile(r"&(?!#?\w+;)")


def mathml(latex: str, display: str = "inline") -> str:
    """A formula as MathML; one that can't be read stays as it was written, and so do all where the converter is not.

    nbconvert loads this file for each notebook that it converts, in environments too that never asked for it.

    >>> mathml("x^2").startswith('<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline">')
    True
    """
    try:
        from latex2mathml.converter import convert

        return TEXT_IN_MATH.sub("&amp;", convert(latex, display=display))
    except Exception:  # the converter's own errors, and an IndexError here and there: a formula never costs a page
        return f"<code>{escape(latex)}</code>"


class OfflineRenderer(IPythonRenderer):
    """Markdown → HTML whose formulas need no script."""

    def block_math(self, body: str) -> str:
        """`$$…$$`."""
        return mathml(body, "block")

    def inline_math(self, body: str) -> str:
        """`$…$`."""
        return mathml(body)

    def latex_environment(self, name: str, body: str) -> str:
        r"""`\begin{align}…\end{align}`."""
        return mathml(rf"\begin{{{name}}}{body}\end{{{name}}}", "block")


def markdown(text: str, **options: Any) -> str:
    """The HTML of a markdown cell.

    >>> markdown("# *Read* this", exclude_anchor_links=True).strip()
    '<h1><em>Read</em> this</h1>'
    """
    html: str = MarkdownWithMath(renderer=OfflineRenderer(escape=False, **options)).render(text)
    return html


class OfflineExporter(HTMLExporter):
    """nbconvert's HTML without a request to any host."""

    export_from_notebook = "HTML without network (seegrad)"

    @default("widget_renderer_url")
    def _host_of_widgets(self) -> str:
        return "data:text/javascript;base64," + base64.b64encode(asset("embed.js").encode()).decode()

    @default("require_js_url")
    def _no_require(self) -> str:
        return ""

    @default("mathjax_url")
    def _no_mathjax(self) -> str:
        return ""

    @default("jquery_url")
    def _no_jquery(self) -> str:
        return ""

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Replaces nbconvert's filter, which leaves formulas to MathJax."""
        cell = context.get("cell", {})
        return markdown(
            source,
            attachments=cell.get("attachments", {}),
            embed_images=self.embed_images,
            path=context.get("resources", {}).get("metadata", {}).get("path", ""),
            anchor_link_text=self.anchor_link_text,
            exclude_anchor_links=self.exclude_anchor_links,
        )
