"""A leaf without a gradient: where it's worth a note, and where nobody waits for one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import seegrad
from seegrad.diagnose import FINDERS
from seegrad.model.recording import Diagnosis


def load(target: torch.nn.Module, online: torch.nn.Module) -> None:
    target.load_state_dict(online.state_dict())


def mix(target: torch.nn.Module, online: torch.nn.Module) -> None:
    for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
        slow.data.copy_(0.9 * slow.data + 0.1 * fast.data)


def rebind(target: torch.nn.Module, online: torch.nn.Module) -> None:
    for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
        slow.data = 0.9 * slow.data + 0.1 * fast.data


def mix_all(target: torch.nn.Module, online: torch.nn.Module) -> None:
    with torch.no_grad():
        torch._foreach_lerp_(list(target.parameters()), list(online.parameters()), 0.1)


def draw_anew(target: torch.nn.Module, online: torch.nn.Module) -> None:
    del online
    for each in target.parameters():
        torch.nn.init.normal_(each)


@pytest.mark.parametrize(
    ("update", "noted"), [(load, 0), (mix, 0), (rebind, 0), (mix_all, 0), (draw_anew, 1), (lambda *_: None, 1)]
)
def test_a_network_that_follows_a_trained_one_misses_no_gradient(update: Any, noted: int) -> None:
    online, target, x = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2), torch.randn(5, 3)
    with seegrad.record() as rec:
        with torch.no_grad():
            wanted = target(x)
        (online(x) - wanted).square().mean().backward()
        update(target, online)
    assert [each.kind for each in rec.diagnoses] == ["graph_cut"] * noted


@pytest.mark.parametrize("depth", [1, 3])
def test_what_a_function_made_without_a_graph_and_returned_has_one(depth: int) -> None:
    """The forward's last result is the Function's, with a history since its return: nothing is cut there."""
    first = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(depth)))
    last = torch.nn.Linear(3, 3)
    with seegrad.record() as rec:
        x = torch.randn(2, 3, requires_grad=True)
        for _ in range(2):
            last(checkpoint(first, x, use_reentrant=True)).sum().backward()
    assert all(each.grad is not None for each in first.parameters())
    assert not rec.diagnoses


def test_a_function_that_is_given_nothing_with_a_history_cuts() -> None:
    first, last = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)), torch.nn.Linear(3, 3)
    with seegrad.record() as rec, pytest.warns(UserWarning, match="None of the inputs"):
        last(checkpoint(first, torch.randn(2, 3), use_reentrant=True)).sum().backward()
    assert first[0].weight.grad is None
    assert {each.kind for each in rec.diagnoses} == {"graph_cut"}


def test_what_only_looks_at_a_shape_cuts_nothing() -> None:
    """A target made by `ones_like` of a score is no number of the score's: the `.detach()` before it is the cut."""
    critic, maker = torch.nn.Linear(3, 1), torch.nn.Linear(2, 3)
    with seegrad.record() as rec:
        made = maker(torch.randn(4, 2))
        score = critic(made.detach())
        (score - torch.ones_like(score)).square().mean().backward()
    (found,) = rec.diagnoses
    assert found.culprit is not None
    assert found.culprit.code == "score = critic(made.detach())"


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True")
@pytest.mark.parametrize("leaf", [False, True])
def test_of_several_results_a_new_tensor_is_no_choice_but_a_join(leaf: bool) -> None:
    """The advice is followed: with `torch.stack` the weight gets its gradient."""
    layer, x = torch.nn.Linear(3, 1), torch.randn(4, 3)
    scores = [layer(each).squeeze() for each in x]
    with contextlib.suppress(RuntimeError), seegrad.record() as rec:
        scores = [layer(each).squeeze() for each in x]
        torch.tensor(scores, requires_grad=leaf).square().mean().backward()
    (told,) = rec.diagnoses
    assert (told.kind, dict(told.arguments)["cause"]) == ("graph_cut", "leaf" if leaf else "made")
    assert "`torch.stack`" in told.message("en")
    torch.stack(scores).square().mean().backward()
    assert layer.weight.grad is not None


def test_a_rule_that_breaks_costs_nothing_but_its_own_findings(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(recording: seegrad.Recording) -> Iterator[Diagnosis]:
        yield replace(diagnosed[0], culprit=recording.frames[10_000].place)

    def program() -> tuple[Diagnosis, ...]:
        with contextlib.suppress(RuntimeError), seegrad.record() as rec:
            torch.ones(2, requires_grad=True).detach().sum().backward()
        return rec.diagnoses

    diagnosed = program()
    monkeypatch.delenv("SEEGRAD_RAISE_OWN_ERRORS", raising=False)
    monkeypatch.setattr("seegrad.diagnose.FINDERS", (broken, *FINDERS))
    assert [each.kind for each in program()] == [each.kind for each in diagnosed] == ["graph_cut"]
    assert ["IndexError" in each.getMessage() for each in caplog.records] == [True]
