"""Targets that learn too: the mend gives the gradient of a loss whose target is a number, and nothing else does."""

from __future__ import annotations

import pytest
import torch

from tests.data.programs import programs
from tests.library.mended import difference, leaves_of, loss_of
from tests.library.recorded import seen

OWN = {name: each for name, each in programs().items() if each.run.__module__.endswith(".bootstrapped")}

MENDS = {
    "b_temporal_difference": ("(value, target)", "(value, target.detach())"),
    "b_q_learning_in_an_agent": ("(chosen, expected)", "(chosen, expected.detach())"),
    "b_actor_and_critic_share_a_body": ("delta = td_target - value", "delta = td_target.detach() - value"),
    "b_returns_bootstrapped_backwards": ("torch.stack(returns) - values", "torch.stack(returns).detach() - values"),
}
"""Program → what the advice makes of a line."""

ONCE = "kept.setdefault('target', {}.detach())"
"""The target of the first call, a number in all others."""

GIVEN = {
    "b_temporal_difference": ("(value, target)", f"(value, {ONCE.format('target')})"),
    "b_q_learning_in_an_agent": ("(chosen, expected)", f"(chosen, {ONCE.format('expected')})"),
    "b_returns_bootstrapped_backwards": (
        "torch.stack(returns) - values",
        f"{ONCE.format('torch.stack(returns)')} - values",
    ),
}
"""The same with that target; an actor's loss has a number of its own in it and isn't differentiated so."""


def test_every_broken_program_has_its_mend() -> None:
    assert set(MENDS) == {name for name, each in OWN.items() if each.kind == "target_learns_too"}


@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize("name", GIVEN)
def test_the_mend_is_the_gradient_of_a_loss_with_a_given_target(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Oracle: central differences of the loss with its first target kept as a number."""
    monkeypatch.setitem(programs()[name].run.__globals__, "kept", {})
    mended, broken, given = loss_of(name, *MENDS[name])(), loss_of(name)(), loss_of(name, *GIVEN[name])
    leaves = leaves_of(given())
    for leaf, right, wrong in zip(leaves, gradients(mended), gradients(broken), strict=True):
        index = (0,) * leaf.dim()
        expected = difference(given, leaf, index, 1e-6)
        assert float(right[index]) == pytest.approx(expected, abs=1e-6, rel=1e-4)
        assert float(wrong[index]) != pytest.approx(expected, abs=1e-6, rel=1e-4)


def gradients(loss: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, leaves_of(loss)))


@pytest.mark.parametrize("name", [name for name, each in OWN.items() if each.kind is None])
def test_what_is_meant_so_gets_no_note(name: str) -> None:
    assert not seen(name).recording.diagnoses


def test_the_sentence_leaves_the_choice() -> None:
    """Nobody can know which of the two is meant."""
    (found,) = seen("b_temporal_difference").recording.diagnoses
    assert found.severity == "note"
    assert "If you meant the target to be given" in found.message("en")
    assert "if both sides are meant to learn, leave it" in found.message("en")
