"""What is never shown, however it is written: commands that act, pictures that unpack to gigabytes, controls."""

from __future__ import annotations

import base64
import html
import struct
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbjudge.shown.markup import clean_html, drawn_parts, picture, render_markdown
from nbjudge.shown.outputs import COLOURS, Shower
from nbjudge.shown.patience import NotShown, patience
from nbjudge.shown.pictures import pixels, safe_picture
from nbjudge.shown.tex import COMMANDS, plain_tex, quiet_tex
from nbjudge.shown.text import printable

ACTING = (
    "href",
    "url",
    "class",
    "cssId",
    "style",
    "require",
    "csname",
    "mmlToken",
    "unicode",
    "def",
    "newcommand",
    "let",
)
WAYS = [
    r"\{name}{{x}}{{y}}",
    r"\\{name}{{x}}",
    r"\\\{name}{{x}}",
    r"\\\\\{name}{{x}}",
    "&bsol;{name}{{x}}",
    "&amp;bsol;{name}{{x}}",
    "&#92;{name}{{x}}",
    "&amp;amp;#x5c;{name}{{x}}",
    "\\<!-- -->{name}{{x}}",
    "<b title='<code>'>\\{name}{{x}}</b><code></code>",
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ACTING)
def test_no_command_that_acts_is_left_for_mathjax(name: str, way: str) -> None:
    tex = way.format(name=name)
    shower = Shower(lambda _kind, source: clean_html(source))
    (output,) = shower.safe_outputs([{"output_type": "display_data", "data": {"text/latex": f"${tex}$"}}])
    texts = (
        render_markdown(f"${tex}$"),
        render_markdown(tex),
        clean_html(f"<p>${tex}$</p>"),
        output["data"]["text/latex"],
    )
    for made in texts:
        assert f"\\{name}" not in html.unescape(made)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(["\\", "&bsol;", "&amp;", "#92;", "href", "h", "ref", " ", "{", "&", "\\frac", "&#92;"]),
        max_size=9,
    )
)
def test_nor_in_any_mixture(parts: list[str]) -> None:
    made = plain_tex("".join(parts))
    assert "\\href" not in html.unescape(html.unescape(made))
    assert quiet_tex(made) == made


@pytest.mark.parametrize(
    "tex",
    [
        r"\frac{\partial L}{\partial w} = \sum_{i=1}^n \left( y_i - \hat{y}_i \right)^2",
        r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
        r"\begin{aligned} a &= b \\ &= \mathrm{softmax}(x) \end{aligned}",
        r"\nabla_\theta \mathcal{L}, \quad \mathbb{R}^n \to \mathbb{R}, \; x \in \{0, 1\}",
        r"\operatorname{relu}(x) \geq 0 \qquad \textbf{done}",
    ],
)
def test_what_sets_type_stays(tex: str) -> None:
    assert quiet_tex(tex) == tex
    assert html.unescape(render_markdown(f"$${tex}$$")).strip().removeprefix("<p>").removesuffix("</p>") == f"$${tex}$$"


def test_a_path_in_code_keeps_its_backslashes() -> None:
    assert r"C:\Users\ada" in render_markdown(r"`C:\Users\ada`")
    assert "frac" in COMMANDS


@pytest.mark.parametrize(
    "header",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 60_000, 60_000),
        b"GIF89a" + struct.pack("<HH", 60_000, 60_000),
        b"\xff\xd8\xff\xe0\0\x10JFIF\0\xff\xc0\0\x11\x08" + struct.pack(">HH", 60_000, 60_000),
    ],
)
def test_a_picture_larger_than_any_screen_is_not_shown(header: bytes) -> None:
    assert pixels(header) == 3_600_000_000
    picture, trouble = safe_picture(base64.b64encode(header).decode())
    assert picture is None
    assert trouble == "its picture has more than 50 million pixels"


@pytest.mark.parametrize(
    ("svg", "reason"),
    [
        ("<svg>" + "<g>" * 5000, "nested too deeply"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><svg>&b;</svg>", "entities"),
        ("<!doctype a [<!entity b 'c'>]><svg>&b;</svg>", "entities"),
        ("<svg", "damaged"),
        (
            "<svg><use href='#b'/><g id='b'><use href='#c'/><use href='#c'/></g><g id='c'>"
            + "<path/>" * 40_000
            + "</g></svg>",
            "parts",
        ),
    ],
)
def test_a_drawing_that_keeps_a_browser_busy_is_not_shown(svg: str, reason: str) -> None:
    with pytest.raises(NotShown, match=reason):
        picture(svg)


def test_a_drawing_that_uses_itself_ends() -> None:
    assert drawn_parts("<svg><g id='a'><use href='#a'/></g></svg>") > 0


def test_few_colours_stay_and_many_go() -> None:
    shower = Shower(lambda _kind, source: source)
    few, many = "\x1b[31mx\x1b[0m", "\x1b[31mx" * (COLOURS + 1)
    (stream,) = shower.safe_outputs([{"output_type": "stream", "text": few}])
    assert stream["text"] == few
    assert not shower.withheld
    (stream,) = shower.safe_outputs([{"output_type": "stream", "text": many}])
    assert stream["text"] == "x" * (COLOURS + 1)
    assert shower.withheld


def test_patience_ends_python_and_regular_expressions() -> None:
    import re

    with pytest.raises(NotShown), patience(0.05):
        sum(1 for _ in iter(int, 1))
    with pytest.raises(NotShown), patience(0.05):
        re.match(r"(a+)+$", "a" * 64 + "b")


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Lu", "Zs"])))
def test_nothing_that_moves_a_cursor_or_turns_a_line_is_printed(text: str) -> None:
    shown = printable(text)
    assert all(unicodedata.category(letter) != "Cc" or letter in "\t\n" for letter in shown)
    assert not any(
        unicodedata.bidirectional(letter) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
        for letter in shown
    )
    shown.encode("utf-8")
