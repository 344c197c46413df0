"""What a page may show: nothing that acts, nothing hidden, and everything that a student needs to see."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nbjudge.shown.hidden import without_hidden_tests
from nbjudge.shown.markup import CONVERSIONS, clean_html, render_markdown
from nbjudge.shown.outputs import Shower
from nbjudge.shown.page import presentable

ACTIVE_TAGS = {
    *("script", "iframe", "object", "embed", "form", "input", "button", "svg", "math", "style", "link", "meta", "base"),
    *("video", "audio"),
}
ACTIVE_ADDRESS = re.compile(r"\s*(javascript|vbscript|data:text)", re.IGNORECASE)
PAYLOADS = [
    "<script>x()</script>",
    "<ScRiPt src=//e.vil>",
    "<img src=x onerror=x()>",
    "<svg onload=x()><script>x()</script></svg>",
    "<a href='javascript:x()'>a</a>",
    "<a href='&#106;avascript:x()'>a</a>",
    "<a href='data:text/html,<script>x()</script>'>a</a>",
    "<iframe srcdoc='<script>x()</script>'></iframe>",
    "<math><mtext><table><mglyph><style><img src=x onerror=x()>",
    "<b style='background:url(javascript:x())' onmouseover=x()>b</b>",
    "<form action=/x><input autofocus onfocus=x()></form>",
    "<noscript><p title='</noscript><img src=x onerror=x()>'>",
    "<!--><script>x()</script>-->",
    "<template><script>x()</script></template>",
    "<base href='//e.vil'><meta http-equiv=refresh content='0;url=//e.vil'>",
    "`<script>`\n\n```html\n<script>x()</script>\n```",
]

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x09\0\0\0\x09\x08\x02\0\0\0").decode()
PIECES = ["<", ">", '"', "'", "</script>", "<b", " onerror=x()", "\0", "&lt;"]
ELSEWHERE = ["https://e.vil/pixel.png", "//e.vil/p", "/formgrader/api/x", "../x.png", "data:text/html,x"]
LINKS = [r"$\href{javascript:x()}{a}$", r"$\&#104;ref{javascript:x()}{a}$", r"$\hr<!-- -->ef{b}$"]


class Acting(HTMLParser):
    """What of a text acts when it's a page: elements, handlers, addresses that are programs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [tag] if tag in ACTIVE_TAGS else []
        self.found += [name for name, _ in attrs if name.startswith("on")]
        self.found += [
            f"{name}={value}"
            for name, value in attrs
            if name in ("href", "src", "action") and ACTIVE_ADDRESS.match(value or "")
        ]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_that_acts_is_left(payload: str) -> None:
    assert not Acting(clean_html(payload)).found
    assert not Acting(render_markdown(payload)).found


@settings(max_examples=300, deadline=None)
@example(["<b", "<noscript><p title='</noscript><img src=x onerror=x()>'>"])  # a title may say whatever it likes
@given(
    st.lists(
        st.sampled_from([*PAYLOADS, "<", ">", '"', "'", "</script>", "<b", " onerror=x()", "\0", "&lt;"]), max_size=5
    )
)
def test_nor_in_any_mixture_of_them(parts: list[str]) -> None:
    assert not Acting(clean_html("".join(parts))).found


def test_what_acts_would_be_found() -> None:
    html = "<p onclick=x()><a href=' JavaScript:x()'>a</a><script>x()</script><p title='<img onerror=x()>'>"
    assert Acting(html).found == ["onclick", "href= JavaScript:x()", "script"]


@pytest.mark.parametrize(
    "html",
    [
        '<table border="1"><tbody><tr><td style="color: red;">1</td></tr></tbody></table>',
        f'<img src="data:image/png;base64,{PNG}" alt="plot">',
        '<img src="data:image/svg+xml;base64,PHN2Zy8+" alt="graph">',
        '<a href="https://pytorch.org/docs">docs</a>',
        "<details><summary>more</summary>x &lt; y</details>",
    ],
)
def test_what_shows_something_stays(html: str) -> None:
    cleaned = clean_html(html)
    assert set(re.findall(r"<(\w+)", cleaned)) == set(re.findall(r"<(\w+)", html))
    assert ("base64" in html) == ("base64" in cleaned)


@pytest.mark.parametrize(
    "source", ["https://e.vil/pixel.png", "//e.vil/p", "/formgrader/api/x", "../x.png", "data:text/html,x"]
)
def test_a_picture_asks_nobody(source: str) -> None:
    assert "src" not in clean_html(f"<img src='{source}'>")


def test_an_overlay_stays_in_its_place() -> None:
    assert "position" not in clean_html("<div style='position: fixed; top: 0; color: red'>Score: 5/5</div>")


@pytest.mark.parametrize(
    "name", ["full-credit", "no-credit", "mark-graded", "score", "modal-backdrop in", "navbar-fixed-top", "card passed"]
)
def test_no_class_is_kept_that_a_page_s_own_style_or_script_knows(name: str) -> None:
    written = f'<div class="{name}" id="essay" name="essay" data-toggle="modal">I argue</div>'
    assert clean_html(written) == render_markdown(written).strip() == "<div>I argue</div>"


def test_code_in_markdown_keeps_its_colours_and_a_frame_its_borders() -> None:
    assert '<span class="k">def</span>' in render_markdown("```python\ndef f(): pass\n```")
    assert clean_html('<table border="1" class="dataframe"><tr><td>1</td></tr></table>').count("<td>1</td>") == 1


def test_letters_and_borders_keep_their_style() -> None:
    shown = clean_html("<b style='font-weight: bold; border-right: 1px solid; text-decoration: underline'>2</b>")
    assert 'style="font-weight:bold;border-right:1px solid;text-decoration:underline"' in shown


def test_markdown_keeps_its_math_and_its_code() -> None:
    shown = render_markdown("$a < b$ and `x < y` and **bold**")
    assert "$a &lt; b$" in shown
    assert "<code>x &lt; y</code>" in shown
    assert "<strong>bold</strong>" in shown


@pytest.mark.parametrize(
    "tex",
    [
        r"$\href{javascript:x()}{a}$",
        r"$\&#104;ref{javascript:x()}{a}$",
        r"$&bsol;href{javascript:x()}{a}$",
        r"$\hr<!-- -->ef{b}$",
    ],
)
def test_math_makes_no_links(tex: str) -> None:
    assert r"\href" not in render_markdown(tex)


def shower() -> Shower:
    return Shower(lambda kind, source: CONVERSIONS[kind](source))


def output(**data: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": {"image/png": {"width": '"><script>'}}}


def bundle(**data: Any) -> dict[str, str]:
    (safe,) = shower().safe_outputs([output(**data)])
    assert safe["metadata"] == {}
    return dict(safe["data"])


def test_a_widget_is_shown_by_its_picture_or_its_text() -> None:
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}
    drawn = bundle(**view, **{"text/html": "<img src='data:image/svg+xml,%3Csvg/%3E' alt='g'>", "text/plain": "g"})
    assert set(drawn) == {"text/html", "text/plain"}
    assert bundle(**view, **{"text/plain": "Slider(5)"}) == {"text/plain": "Slider(5)"}
    assert bundle(**view) == {"text/plain": "(this output can't be shown here)"}


def test_an_svg_becomes_a_picture() -> None:
    svg = "<svg><script>x()</script></svg>"
    html = bundle(**{"image/svg+xml": svg})["text/html"]
    assert html.startswith("<img ")
    assert base64.b64encode(svg.encode()).decode() in html


def test_a_broken_picture_is_left_out() -> None:
    data = bundle(**{"image/png": '"><script>x()</script>', "text/plain": "Figure"})
    assert data == {"text/plain": "Figure"}
    assert bundle(**{"image/png": f"{PNG[:9]} {PNG[9:]}\n"}) == {"image/png": PNG}


@pytest.mark.parametrize("mime", ["application/javascript", "application/pdf", "text/vnd.mermaid", "text/x-unknown"])
def test_other_types_are_left_out(mime: str) -> None:
    assert bundle(**{mime: "x()", "text/plain": "x"}) == {"text/plain": "x"}


@pytest.mark.parametrize("odd", [{}, {"output_type": "update"}, {"output_type": None}])
def test_unknown_outputs_are_dropped(odd: dict[str, Any]) -> None:
    assert shower().safe_outputs([odd]) == []


def test_streams_errors_and_counts_of_the_wrong_type_are_made_right() -> None:
    outputs = [
        {"output_type": "stream", "name": "'><b>", "text": ["a", 5, None]},
        {"output_type": "error", "ename": None, "evalue": 7, "traceback": None},
        {"output_type": "execute_result", "execution_count": "<b>", "data": {"text/plain": ["1\n", "2"]}},
    ]
    stream, error, result = shower().safe_outputs(outputs)
    assert stream == {"output_type": "stream", "name": "stdout", "text": "a5"}
    assert error == {"output_type": "error", "ename": "", "evalue": "7", "traceback": []}
    assert (result["execution_count"], result["data"]) == (None, {"text/plain": "1\n2"})


def test_raw_cells_and_foreign_metadata_don_t_reach_a_template() -> None:
    cells = [
        {"cell_type": "raw", "source": "<script>x()</script>", "metadata": {"raw_mimetype": "text/html"}, "id": "a"},
        {
            "cell_type": "markdown",
            "source": "x",
            "metadata": {"tags": ["'><b>"], "nbgrader": {"grade_id": "q"}},
            "id": "b",
        },
    ]
    shown = presentable(
        {"cells": cells, "metadata": {"widgets": {}, "title": "x", "kernelspec": {}}, "nbformat": 4}, shower()
    )
    assert shown["cells"][0]["cell_type"] == "markdown"
    assert "<script>" not in shown["cells"][0]["source"]
    assert shown["cells"][1]["metadata"] == {"nbgrader": {"grade_id": "q"}}
    assert shown["metadata"] == {"kernelspec": {}}


TEST = """import torch
assert f(1) == 1
### BEGIN HIDDEN TESTS
import torch
y = 3
assert f(secret) == 7, "too small"
### END HIDDEN TESTS
assert f(2) == 2"""
TRACEBACK = [
    "\x1b[0;31mAssertionError\x1b[0m   Traceback (most recent call last)",
    "Cell \x1b[0;32mIn[3]\x1b[0m, line 6\n      1 import torch\n"
    '\x1b[1;32m----> 6\x1b[0m assert f(secret) == 7, "too small"\n      5 y = 3\n',
    '  File "x.py", line 6, in <module>\n    assert f(secret) == 7, "too small"',
    "AssertionError: too small",
]


def seen(*outputs: dict[str, Any]) -> str:
    cell = {"cell_type": "code", "source": TEST, "metadata": {}, "outputs": list(outputs)}
    return json.dumps(without_hidden_tests({"cells": [cell], "metadata": {}})["cells"])


def test_no_hidden_line_in_source_or_traceback_and_the_message_stays() -> None:
    shown = seen({"output_type": "error", "ename": "AssertionError", "evalue": "too small", "traceback": TRACEBACK})
    assert "secret" not in shown
    assert "y = 3" not in shown
    assert "HIDDEN" not in shown
    assert "AssertionError: too small" in shown
    assert "assert f(1) == 1" in shown
    assert shown.count("import torch") == 2  # it stands in the open too: no secret


@pytest.mark.parametrize(
    "quoted",
    [
        {"output_type": "stream", "name": "stderr", "text": 'ok\nin assert f(secret) == 7, "too small"\n'},
        {"output_type": "display_data", "data": {"text/html": "<p>assert f(secret) == 7, &quot;too small&quot;</p>"}},
    ],
)
def test_other_outputs_that_quote_a_hidden_line_lose_it(quoted: dict[str, Any]) -> None:
    assert "secret" not in seen(quoted)


def test_an_unclosed_region_hides_the_rest() -> None:
    cell = {"cell_type": "code", "source": "a\n### BEGIN HIDDEN TESTS\nb", "metadata": {}, "outputs": []}
    assert without_hidden_tests({"cells": [cell]})["cells"][0]["source"] == "a"


def test_nothing_is_taken_out_of_what_a_student_wrote_by_themselves() -> None:
    """Which of many guessed lines are missing would say which ones are hidden."""
    test = {"nbgrader": {"grade": True, "solution": False}}
    said = [{"output_type": "stream", "name": "stdout", "text": "assert f(1) == 1\nassert f(4711) == 3\n"}]
    source = "### BEGIN HIDDEN TESTS\nassert f(4711) == 3\n### END HIDDEN TESTS"
    cells = [
        {"cell_type": "code", "source": "guess()", "metadata": {}, "outputs": said},
        {"cell_type": "code", "source": source, "metadata": test, "outputs": said},
    ]
    guessed, tested = without_hidden_tests({"cells": cells})["cells"]
    assert guessed["outputs"] == said
    assert "4711" not in json.dumps(tested)
