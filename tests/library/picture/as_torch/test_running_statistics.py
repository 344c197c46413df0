"""What an op writes inside, a BatchNorm's running statistics, is shown as torch holds it after the call."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import seegrad
from seegrad.capture.tables.frames import preview
from seegrad.picture.sketch import at, sketch


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("training", [True, False])
def test_running_statistics_are_those_of_torch(*, training: bool, values: bool) -> None:
    norm, x = nn.BatchNorm1d(4).train(training), torch.randn(8, 4) * 3 + 1
    with seegrad.record(values=values) as rec:
        norm(x).sum().backward()
        norm(x).sum().backward()
    cards = {card.full_name: card for card in sketch(rec.recording).cards}
    for name in ("running_mean", "running_var"):
        last = at(cards[f"norm.{name}"].values, len(rec.recording.frames))
        assert last == preview(getattr(norm, name))
        assert len(cards[f"norm.{name}"].values) == (3 if training else 1)
