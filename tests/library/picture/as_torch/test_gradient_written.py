"""`.grad` on a leaf's card is what torch holds there, also after somebody has written to it."""

from __future__ import annotations

import pytest
import torch

import seegrad
from seegrad.model.recording import Recording
from seegrad.picture.sketch import at, sketch


def shown(recording: Recording, name: str) -> str:
    """The `.grad` on the newest card of that name."""
    card = [card for card in sketch(recording).cards if card.full_name == name][-1]
    gradient = at(card.gradients, len(recording.frames))
    assert gradient is not None
    assert gradient.kept
    assert gradient.preview is not None
    return gradient.preview[0][0]


@pytest.mark.parametrize("code", ["w.grad.zero_()", "w.grad.data.zero_()", "opt.zero_grad(set_to_none=False)"])
def test_a_gradient_that_was_zeroed_is_shown_as_zero(code: str) -> None:
    w = torch.ones(1, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.1)
    with seegrad.record() as rec:
        (w * 3).sum().backward()
        exec(code, {"w": w, "opt": opt})  # noqa: S102  # one of the ways to zero it
    assert w.grad is not None
    assert w.grad.item() == 0
    assert shown(rec.recording, "w") == "0"


def test_a_gradient_that_was_clipped_is_shown_so() -> None:
    w = torch.ones(1, requires_grad=True)
    with seegrad.record() as rec:
        (w * 3).sum().backward()
        torch.nn.utils.clip_grad_norm_([w], 1.0)
    assert w.grad is not None
    assert round(w.grad.item(), 3) == 1
    assert shown(rec.recording, "w") == "1"
