"""What is never shown, however it is written: commands that act, pictures that unpack to gigabytes, controls."""

from __future__ import annotations

import base64
import html
import io
import struct
import unicodedata

import matplotlib.pyplot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import seegrad
from nbjudge.shown import markup
from nbjudge.shown.markup import clean_html, picture, render_markdown
from nbjudge.shown.measures import kind_and_pixels, measured
from nbjudge.shown.outputs import COLOURS, Shower
from nbjudge.shown.patience import NotShown, patience
from nbjudge.shown.pictures import PAGE_BYTES, PAGE_PIXELS, PIXELS, Pictures
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


def png(wide: int, high: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", wide, high) + b"\x08\x02\0\0\0"


def as_data(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


HEADERS = {
    "png": png(16_000, 15_000),
    "gif": b"GIF89a" + struct.pack("<HH", 16_000, 15_000),
    "jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF\0\xff\xc0\0\x11\x08" + struct.pack(">HH", 15_000, 16_000),
    "webp, lossy": b"RIFF    WEBPVP8 " + bytes(10) + struct.pack("<HH", 16_000, 15_000),
    "webp, lossless": b"RIFF    WEBPVP8L" + bytes(5) + (15_999 | 14_999 << 14).to_bytes(4, "little") + bytes(5),
    "webp, extended": b"RIFF    WEBPVP8X" + bytes(8) + (15_999).to_bytes(3, "little") + (14_999).to_bytes(3, "little"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_picture_larger_than_any_screen_is_not_shown_wherever_it_stands(name: str) -> None:
    content, kind = HEADERS[name], name.partition(",")[0]
    assert kind_and_pixels(content) == (f"image/{kind}", 240_000_000)
    source = as_data(content, kind)
    inside = f"<svg xmlns:xlink='http://www.w3.org/1999/xlink'><image xlink:href='{source}'/></svg>"
    ways = (
        lambda: Pictures().encoded(base64.b64encode(content).decode()),
        lambda: clean_html(f"<p><img src='{source}'></p>"),
        lambda: clean_html(f"<img src='{as_data(content, 'gif')}'>"),  # whatever it calls itself
        lambda: render_markdown(f"![x]({source})"),
        lambda: render_markdown("![x](attachment:a.png)", None, {"a.png": {"image/png": source.partition(",")[2]}}),
        lambda: render_markdown("![x](own.png)", Pictures({"own.png": content})),
        lambda: picture(inside),
    )
    for way in ways:
        with pytest.raises(NotShown, match="its picture has more than 50 million pixels"):
            way()


@pytest.mark.parametrize("source", ["data:image/png;base64,aGk=", "data:image/webp,hi", "data:image/png,%89PNG"])
def test_what_can_t_be_measured_is_not_shown(source: str) -> None:
    with pytest.raises(NotShown, match="isn't one"):
        clean_html(f'<img src="{source}">')


def test_pictures_of_one_page_are_counted_together() -> None:
    each = png(5000, PIXELS // 5000)
    pictures = Pictures({"own.png": each})
    for _ in range(PAGE_PIXELS // PIXELS - 1):
        assert 'src="data:image/png' in render_markdown("![x](own.png)", pictures)
    pictures.encoded(base64.b64encode(each).decode())
    with pytest.raises(NotShown, match="as much as a page can hold"):
        clean_html(f'<img src="{as_data(png(8, 8))}">', pictures)


def test_one_large_file_that_is_named_again_and_again_is_counted_each_time() -> None:
    pictures = Pictures({"own.png": png(8, 8) + bytes(PAGE_BYTES // 10)})
    for _ in range(9):
        assert 'src="data:image/png' in render_markdown("![x](own.png)", pictures)
    with pytest.raises(NotShown, match="as much as a page can hold"):
        render_markdown("![x](own.png)", pictures)


def test_a_pasted_picture_that_is_named_again_and_again_is_not_multiplied_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pasted = {"a.png": {"image/png": base64.b64encode(png(8, 8) + bytes(900)).decode()}}
    monkeypatch.setattr(markup, "PAGE_BYTES", 5000)
    assert render_markdown("![x](attachment:a.png)", None, pasted).count("<img") == 1
    with pytest.raises(NotShown, match="as much as a page can hold"):
        render_markdown("![x](attachment:a.png)\n" * 10, None, pasted)


def test_drawings_of_one_page_too() -> None:
    pictures, svg = Pictures(), "<svg>" + "<path/>" * 40_000 + "</svg>"
    for _ in range(4):
        picture(svg, pictures)
    with pytest.raises(NotShown, match="as much as a page can hold"):
        picture(svg, pictures)


@pytest.mark.parametrize(
    ("svg", "reason"),
    [
        ("<svg>" + "<g>" * 5000, "nested too deeply"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><svg>&b;</svg>", "entities"),
        ("<!doctype a [<!entity b 'c'>]><svg>&b;</svg>", "entities"),
        ("<svg", "damaged"),
        ("<svg><filter id='a'/></svg>", "effects"),
        ("<svg><style>rect { filter: blur(90px) }</style></svg>", "effects"),
        ("<svg><mask id='a'><path/></mask></svg>", "effects"),
        ("<svg><marker><path/></marker><path d='M0 0" + " 1 1" * 60_000 + "'/></svg>", "parts"),
        ("<svg><image href='data:image/svg+xml,%3Csvg/%3E'/></svg>", "isn't one"),
        (
            "<svg><use href='#b'/><g id='b'><use href='#c'/><use href='#c'/></g><g id='c'>"
            + "<path/>" * 40_000
            + "</g></svg>",
            "parts",
        ),
    ],
)
def test_a_drawing_that_keeps_a_browser_busy_is_not_shown_wherever_it_stands(svg: str, reason: str) -> None:
    source = as_data(svg.encode(), "svg+xml")
    for way in (
        lambda: picture(svg),
        lambda: clean_html(f'<img src="{source}">'),
        lambda: render_markdown(f"![]({source})"),
    ):
        with pytest.raises(NotShown, match=reason):
            way()


def test_drawings_of_honest_programs_are_shown() -> None:
    x = torch.ones(3, requires_grad=True)
    with seegrad.record() as recording:
        (x * 2).sum().backward()
    data, _ = seegrad.show(recording)._repr_mimebundle_()
    figure, axes = matplotlib.pyplot.subplots(1, 2)
    axes[0].imshow([[0, 1], [2, 3]])
    axes[1].scatter(range(3000), range(3000))
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg")
    matplotlib.pyplot.close(figure)
    for shown in (clean_html(data["text/html"]), picture(drawn.getvalue())):
        assert 'src="data:image/svg+xml;base64,' in shown


def test_a_drawing_that_uses_itself_ends() -> None:
    assert measured("<svg><g id='a'><use href='#a'/></g></svg>")[0] > 0


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
