"""What is drawn as wrong is wrong: a normal write is quiet, a run without a finding says so, NaN can't be missed."""

from __future__ import annotations

import contextlib
import re
from xml.etree import ElementTree

import torch

import seegrad
from seegrad.picture import draw, still
from seegrad.picture.sketch import sketch


def test_only_the_write_that_a_finding_is_about_is_harmful() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        quiet = a * 1
        quiet.add_(1)
        saved = quiet.sigmoid()
        saved.mul_(2)
        with contextlib.suppress(RuntimeError):
            saved.sum().backward()
    parts = sketch(rec.recording)
    assert [pill.symbol for pill in parts.pills if pill.inplace] == ["add_", "mul_"]
    assert [pill.symbol for pill in parts.pills if pill.harmful] == ["mul_"]
    assert [card.label for card in parts.cards if card.written and card.harmed] == ["saved"]
    body = draw(rec.recording).body
    assert len(re.findall(r'class="nd fn [^"]* hm"', body)) == 1


def test_damage_through_another_name_is_seen_on_both() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        out = a.sigmoid()
        c = out.data
        c.zero_()
        out.sum().backward()
    assert {card.label for card in sketch(rec.recording).cards if card.harmed} == {"out", "c"}


def test_a_healthy_run_ends_with_its_leaves() -> None:
    net = torch.nn.Linear(3, 1)
    with seegrad.record() as rec:
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(4, 3)).sum().backward()
        opt.step()
    scene = draw(rec.recording)
    assert scene.frames[-1].diagnosis == "2 leaves got a gradient; no problem was found."
    assert scene.frames[-1].severity is None
    assert " hm" not in scene.body
    assert draw(rec.recording, lang="zh").frames[-1].diagnosis == "2 个叶子张量得到了梯度；没有发现问题。"


def test_a_run_with_a_finding_or_without_a_backward_claims_nothing() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as forward:
        (a * 2).sum()
    with seegrad.record() as finding:
        out = a.sigmoid()
        out.data.zero_()
        out.sum().backward()
    for rec in (forward, finding):
        assert not any("no problem was found" in frame.diagnosis for frame in draw(rec.recording).frames)


def test_numbers_that_are_none_are_marked_at_card_edge_and_leaf_and_in_the_verdict() -> None:
    a = torch.tensor([0.0, 4.0], requires_grad=True)
    with seegrad.record() as rec:
        c = a.sqrt() * 0
        c.sum().backward()
    scene = draw(rec.recording)
    line = test_numbers_that_are_none_are_marked_at_card_edge_and_leaf_and_in_the_verdict.__code__.co_firstlineno + 3
    assert scene.last_word(len(scene.frames) - 1) == (
        f"Line {line} (`c = a.sqrt() * 0`) takes `sqrt` of a number at which its slope isn't finite, so the gradient "
        f"of `a` isn't either, although the loss on line {line + 1} is. The gradient that arrives for that number is "
        "0, as for what is left out, clamped or multiplied by 0 afterwards, and backward multiplies the two: NaN. Keep "
        "what goes in away from there, as in `torch.sqrt(x + 1e-12)`; or, if such a result isn't used, put a "
        "harmless number in for it before this line, `safe = torch.where(used, x, 1.0)`, and compute `sqrt` of `safe`: "
        "to choose afterwards is too late."
    )
    assert [k for k, frame in enumerate(scene.frames) if frame.severity == "wrong"] == [len(scene.frames) - 2]
    leaf = scene.body[scene.body.index('-t0-0"') - 60 :]
    leaf = leaf[: leaf.index("</title>") + 4000]
    assert 'class="nan"' in leaf
    assert 'class="nu nf"' in leaf
    assert 'class="bk nf"' in scene.body


def test_a_shape_is_written_as_python_does_in_a_voice_of_its_own() -> None:
    x = torch.ones(20, requires_grad=True)
    with seegrad.record() as rec:
        x.sum().backward()
    said = re.findall(r'<text[^>]*class="nu shp"[^>]*>([^<]*)', draw(rec.recording).body)
    assert said == ["(20,)", "(20,)"]


def test_the_sign_tells_whether_the_number_or_its_gradient_is_not_finite() -> None:
    x = torch.zeros(2, requires_grad=True)
    with seegrad.record() as rec:
        y = x.sqrt()
        z = y / 0
        y.sum().backward()
    assert z.isnan().all()
    assert x.grad is not None
    assert x.grad.isinf().all()
    signs = {}
    for card in ElementTree.fromstring(still(draw(rec.recording), -1, "")).iter():  # noqa: S314  # our own picture
        found = ["".join(each.itertext()) for each in card.iter() if each.get("class") == "nan"]
        names = [each.text for each in card.iter() if each.get("class") == "nm"]
        if found and len(names) == 1:
            signs[names[0]] = found[-1]
    assert signs == {"x": "∂ ±∞", "z": "NaN"}
