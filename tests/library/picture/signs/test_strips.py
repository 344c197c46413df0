"""A tensor that doesn't fit on its card: a heat strip, what is known of its numbers, a sign for NaN and infinity."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
import torch

import seegrad
from seegrad.model.recording import Recording, Summary
from seegrad.model.scene import Scene
from seegrad.picture import draw, still
from seegrad.picture.svg.strips import draw_strip

HEAT = "{http://www.w3.org/2000/svg}g[@class='heat']"


def masked() -> Recording:
    """An attention whose first row is masked whole."""
    torch.manual_seed(0)
    q = torch.randn(6, 8, requires_grad=True)
    mask = torch.ones(6, 6).tril() > 0
    mask[0] = False
    with seegrad.record(values=True) as rec:
        scores = q @ q.T + torch.zeros(6, 6).masked_fill(~mask, -math.inf)
        a = scores.softmax(-1)
        a.sum().backward()
    return rec.recording


def drawn(scene: Scene, step: int = -1) -> ElementTree.Element:
    return ElementTree.fromstring(still(scene, step, "", heat=".hs{}"))  # noqa: S314  # our own picture


def card(scene: Scene, label: str) -> ElementTree.Element:
    """The card of that name in the still picture."""
    names = {item.id: item.label for item in scene.items}
    found = [part for part in drawn(scene).iter() if names.get(part.get("id", "").partition("-")[2]) == label]
    return found[-1]


def said(part: ElementTree.Element) -> list[str]:
    return [" ".join(strip.itertext()) for strip in part.iter() if strip.get("class") == "heat" and strip[0].text]


def test_a_strip_as_it_is_drawn() -> None:
    known = Summary("-1", "4", "5", zeros=1, nans=1, infinities=0, strip=("4", "4", "-1", "0", "nan"))
    assert draw_strip(known, 2, 3, 40).replace("><", ">\n<").splitlines() == [
        '<g class="heat" role="img" transform="translate(2.0 3.0)">',
        "<title>min -1, max 4, norm 5; zeros: 1, NaN: 1, Inf: 0</title>",
        '<rect class="hs" width="40" height="10"/>',
        '<g transform="scale(8.00 1)">',
        '<path class="nf" d="M4 5h1"/>',
        '<path class="hp4" d="M0 5h2"/>',
        '<path class="hn1" d="M2 5h1"/>',
        "</g>",
        "</g>",
    ]


@pytest.mark.parametrize(
    ("lang", "words"),
    [
        ("en", "min {}, max {}, norm {}; zeros: 0, NaN: 0, Inf: 0"),
        ("zh_CN", "最小 {}，最大 {}，范数 {}；零：0，NaN：0，Inf：0"),
    ],
)
def test_it_says_what_it_shows(lang: str, words: str) -> None:
    torch.manual_seed(0)
    q = torch.randn(6, 8)  # as `masked` begins
    words = words.format(*(f"{figure.item():.3g}" for figure in (q.min(), q.max(), q.norm())))
    scene = draw(masked(), lang=lang)
    assert words in " ".join(said(card(scene, "q")))
    assert [row.values[-1][1] for item in scene.items if item.label == "q" for row in item.rows[:1]] == [words]


def test_its_shape_stays_beside_it() -> None:
    shapes = [part.text for part in card(draw(masked()), "scores").iter() if part.get("class") == "nu shp"]
    assert shapes == ["(6, 6)"]


def test_nan_and_infinity_have_their_sign_on_card_edge_and_leaf() -> None:
    scene = draw(masked())
    signs = {
        label: [" ".join(part.itertext()) for part in card(scene, label).iter() if part.get("class") == "nan"]
        for label in ("q", "scores", "a")
    }
    assert signs == {"q": ["∂ NaN"], "scores": ["±∞ ∂ NaN"], "a": ["NaN"]}
    made = next(item.born for item in scene.items if item.label == "scores")
    early = [part for part in drawn(scene, made).iter() if part.get("class") == "nan"]
    known = [" ".join(sign.itertext()) for sign in early if len(sign)]
    assert known == ["±∞", "±∞", "NaN"], "the mask, what it's added to, and the legend's"
    assert 'class="bk nf"' in scene.body, "the gradient's way too"
    assert {frame.severity for frame in scene.frames} == {None, "wrong"}, "the finding names the line"


def test_the_style_of_strips_is_in_a_picture_that_has_one() -> None:
    with seegrad.record(values=True) as rec:
        torch.ones(3, requires_grad=True).sum().backward()
    small = draw(rec.recording)
    assert ".hs{}" not in still(small, -1, "", heat=".hs{}")
    assert ".hs{}" in still(draw(masked()), -1, "", heat=".hs{}")


def test_small_tensors_are_drawn_as_without_values() -> None:
    def program(*, values: bool) -> Recording:
        with seegrad.record(values=values) as rec:
            x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
            y = x.sigmoid()
            x.data.mul_(2)
            y.sum().backward()
        return rec.recording

    one, other = (draw(program(values=values)) for values in (False, True))
    assert one == other


def test_numbers_to_be_walked_through_are_the_tensor_s() -> None:
    x = torch.arange(60.0).reshape(3, 4, 5).requires_grad_()
    with seegrad.record(values=True) as rec:
        (x * 2).sum().backward()
    scene = draw(rec.recording)
    sheets = {(sheet.item, sheet.key): sheet for sheet in scene.sheets}
    name = next(item.id for item in scene.items if item.label == "x")
    value, grad = sheets[name, "value"], sheets[name, ".grad"]
    assert (value.shape, value.kept, value.most) == ((3, 4, 5), (3, 4, 5), "59")
    assert [float(number) for number in value.numbers.split()] == x.flatten().tolist()
    assert set(grad.numbers.split()) == {"2"}
    assert grad.since > value.since
    assert Scene.from_json(scene.to_json()) == scene
