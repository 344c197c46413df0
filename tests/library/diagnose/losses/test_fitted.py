"""What is said of labels is true of the losses that it's said of, as torch computes them."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F  # noqa: N812  # torch's own convention

import seegrad
from seegrad.diagnose.losses.fitted.labels import SHARES, SIDES
from seegrad.diagnose.losses.fitted.reach import REACH
from tests.data.programs import programs


@pytest.mark.parametrize("name", sorted(SIDES))
def test_of_a_side_that_is_0_nothing_is_learned(name: str) -> None:
    x, other = torch.randn(6, 3, requires_grad=True), torch.randn(6, 3)
    given = {
        "cosine_embedding_loss": (x, other, torch.zeros(6)),
        "margin_ranking_loss": (x, other, torch.zeros(6, 3)),
        "soft_margin_loss": (x, torch.zeros(6, 3)),
    }[name]
    (gradient,) = torch.autograd.grad(getattr(F, name)(*given), x, allow_unused=True)
    assert gradient is None or not gradient.any()


@pytest.mark.parametrize("name", sorted(SHARES))
def test_beyond_its_shares_a_loss_falls_below_0_and_on(name: str) -> None:
    wanted = torch.tensor([2.0])
    near, far = (getattr(F, name)(torch.tensor([size]), wanted) for size in (5.0, 50.0))
    assert far < near < 0


@pytest.mark.parametrize("name", sorted(REACH))
def test_no_number_lies_out_of_the_reach_that_is_said(name: str) -> None:
    x = torch.cat([torch.linspace(-60, 60, 241), torch.randn(100) * 9])
    op = getattr(torch, name, None) or getattr(F, name)
    result = op(x.clone(), dim=0) if "softmax" in name else op(x.clone())
    assert REACH[name].low <= float(result.min())
    assert float(result.max()) <= REACH[name].high


@pytest.mark.parametrize("name", [name for name, each in programs().items() if each.kind == "another_axis"])
def test_a_layer_along_the_samples_is_shown_where_the_layer_runs(name: str) -> None:
    """Not where its loss does: that one is as it should be."""
    program = programs()[name]
    torch.manual_seed(0)
    with seegrad.record() as rec:
        program.run()
    (found,) = [each for each in rec.diagnoses if each.kind == "another_axis"]
    assert found.frame is not None
    running = rec.recording.frames[found.frame].running
    assert running is not None
    assert found.node_id == running
    made = rec.recording.frames[rec.recording.nodes[running].frame]
    assert made.place is not None
    assert made.place.line == program.line("victim")
