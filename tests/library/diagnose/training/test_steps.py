"""What a training loop does with its gradients: who is told, who isn't, and that nothing of it stays behind."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.optim import optimizer as optimisers

import seegrad
from seegrad.model.recording import Recording
from tests.data.programs import programs
from tests.library.recorded import seen

RIGHT = [name for name, each in programs().items() if each.kind is None and each.run.__module__.endswith(".loops")]


def loop(order: str, *, laps: int = 3) -> tuple[Recording, list[float]]:
    """z zero_grad, b backward, s step, c clip, in that order, in each lap; and the weight after it."""
    weight = torch.tensor([4.0], requires_grad=True)
    opt = torch.optim.SGD([weight], lr=0.1)
    does = {
        "z": opt.zero_grad,
        "b": lambda: (weight * weight).sum().backward(),
        "s": opt.step,
        "c": lambda: torch.nn.utils.clip_grad_norm_([weight], 1.0),
    }
    with seegrad.record() as rec:
        for letter in order * laps:
            does[letter]()
    return rec.recording, weight.tolist()


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_loop_gets_no_note(name: str) -> None:
    assert not seen(name).recording.diagnoses


@pytest.mark.parametrize("order", ["bzs", "sbz"])
def test_the_mend_lets_the_weight_move(order: str) -> None:
    """Oracle: with the gradients cleared elsewhere, as the advice says, the weight moves; before, it doesn't."""
    recording, stays = loop(order)
    assert [each.kind for each in recording.diagnoses] == ["cleared_before_step"]
    assert stays == [4.0]
    mended, moves = loop("zbs")
    assert not mended.diagnoses
    assert moves < [4.0]


def test_a_late_clip_changes_nothing() -> None:
    recording, weight = loop("zbsc")
    assert [each.kind for each in recording.diagnoses] == ["clipped_after_step"]
    assert weight == loop("zbs")[1]
    assert weight != loop("zbcs")[1]
    assert not loop("zbcs")[0].diagnoses


def test_what_a_forgotten_zero_grad_does_is_said_once() -> None:
    recording, _ = loop("bs", laps=5)
    assert [each.kind for each in recording.diagnoses] == ["gradients_never_cleared"]


def test_the_fused_and_the_plain_optimiser_are_seen_alike() -> None:
    for options in ({"foreach": True}, {"foreach": False}, {"fused": True}):
        weight = torch.ones(2, requires_grad=True)
        opt = torch.optim.Adam([weight], **options)
        with seegrad.record() as rec:
            for _ in range(2):
                weight.sum().backward()
                opt.step()
        assert [use.kind for use in rec.recording.uses] == ["stepped", "stepped"], options
        assert [each.kind for each in rec.diagnoses] == ["gradients_never_cleared"], options


def test_torch_is_as_it_was_after_the_block() -> None:
    before = dict(optimisers._global_optimizer_pre_hooks)
    loop("zbs")
    with pytest.raises(ZeroDivisionError), seegrad.record():
        1 / 0  # noqa: B018  # it is to raise
    assert dict(optimisers._global_optimizer_pre_hooks) == before


def test_another_thread_s_optimiser_is_not_ours() -> None:
    weight = torch.ones(1, requires_grad=True)
    opt = torch.optim.SGD([weight], lr=0.1)
    with seegrad.record() as rec:
        weight.sum().backward()
        thread = threading.Thread(target=opt.step)
        thread.start()
        thread.join()
    assert not rec.recording.uses


def test_what_was_done_with_gradients_is_read_back() -> None:
    recording, _ = loop("zbcs")
    assert recording.uses
    assert Recording.from_json(recording.to_json()) == recording


def test_a_long_loop_keeps_the_uses_of_its_last_laps_alone() -> None:
    recording, _ = loop("zbs", laps=1_200)
    assert 0 < len(recording.uses) < 2_400
    assert all(use.frame < len(recording.frames) for use in recording.uses)
    assert not recording.diagnoses
