"""Where a box's line brings no gradient back, it carries the sign; where one of several does, it doesn't."""

from __future__ import annotations

import torch
from torch import nn

import seegrad
from seegrad.picture.sketch import Room, collapse, sketch
from seegrad.picture.sketch.parts import Wire


def lines(*, fake: str) -> dict[tuple[str, str], Wire]:
    """(box, box) → the line between them, where a generator's result is judged by a discriminator."""
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    judge = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    with seegrad.record() as rec:
        made = generator(torch.randn(3, 2))
        out = judge(eval(fake, {"made": made}))  # noqa: S307  # with a gradient, or without
        out.sum().backward()
    parts = sketch(rec.recording)
    outer = collapse(rec.recording, parts, Room(deep=True))[0].sketch
    labels = {bundle.id: bundle.label for bundle in outer.bundles}
    return {(labels[w.source], labels[w.target]): w for w in outer.wires if {w.source, w.target} <= labels.keys()}


def test_a_detached_result_is_cut_between_folded_boxes() -> None:
    assert lines(fake="made.detach()")["generator", "judge"].cut


def test_a_result_with_its_history_is_not() -> None:
    assert not lines(fake="made")["generator", "judge"].cut
