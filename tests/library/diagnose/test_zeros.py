"""Gradients that are exactly 0: the proposed mends, applied; and zeros that nothing is said of."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import seegrad
from tests.data.programs import programs
from tests.library.mended import agree_with_differences, leaves_of, loss_of
from tests.library.recorded import seen

MENDS = {
    "z_quantised_activations": ("torch.round(h * self.levels)", "(h * self.levels)"),
    "z_binarised_weights": ("self.weight.sign()", "self.weight"),
    "z_nearest_cell_of_a_grid": ("position.floor()", "position"),
    "z_a_code_that_is_drawn": ("torch.normal(mean, 0.1)", "mean + 0.1 * torch.randn_like(mean)"),
    "z_log_std_out_of_its_range": ("torch.clamp(raw, -20.0, 2.0)", "11.0 * torch.tanh(raw / 11) - 9.0"),
    "z_a_spread_that_never_comes_back": (".clamp(-5.0, 2.0)", ".div(4).tanh().mul(3.5).sub(1.5)"),
    "z_a_branch_that_was_dead_from_the_start": ("F.relu(self.other(x))", "F.leaky_relu(self.other(x))"),
    "z_inputs_that_were_never_scaled": ("net[1](hidden)", "net[1](hidden / 1000)"),
    "z_a_layer_that_has_died": ("F.relu(self.first(x))", "F.leaky_relu(self.first(x))"),
    "z_heights_below_zero_behind_a_relu": ("torch.relu(self.says(hidden))", "F.leaky_relu(self.says(hidden))"),
    "z_a_mask_that_is_all_off": ("(overlap < 0.5)", "(overlap / 100 < 0.5)"),
}
"""Program → what its line says, and what the advice makes of it."""

THROUGH = {
    "z_quantised_activations": ("torch.round(h * self.levels)", "{0}(h * self.levels)"),
    "z_binarised_weights": ("self.weight.sign()", "{0}(self.weight)"),
}
"""Where the advice is to pass the gradient straight through."""

OWN = {name: each for name, each in programs().items() if each.run.__module__.endswith(".zeros")}
BROKEN = [name for name, each in OWN.items() if each.kind == "gradient_is_zero"]


@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize("name", BROKEN)
def test_the_mend_gives_every_leaf_the_gradient_of_central_differences(name: str) -> None:
    broken, compute = loss_of(name)(), loss_of(name, *MENDS[name])
    before = torch.autograd.grad(broken, leaves_of(broken))
    assert not all(each.any() for each in before)
    loss = compute()
    assert all(each.any() for each in torch.autograd.grad(loss, leaves_of(loss)))
    agree_with_differences(compute)


class Straight(torch.autograd.Function):
    """What straight-through means: the step forward, the identity backward."""

    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor, op: str) -> torch.Tensor:
        return getattr(x, op)()

    @staticmethod
    def backward(_ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


@pytest.mark.parametrize("name", THROUGH)
def test_the_other_mend_passes_the_gradient_straight_through(name: str) -> None:
    """Oracle: a Function that does."""
    op = seen(name).recording.diagnoses[0].message("en").rpartition("(x.")[2].partition("(")[0]
    scope = programs()[name].run.__globals__
    scope["straight"] = lambda x: Straight.apply(x, op)
    scope["advised"] = lambda x: x + (getattr(x, op)() - x).detach()
    found = []
    for passed in ("straight", "advised"):
        old, new = THROUGH[name]
        loss = loss_of(name, old, new.format(passed))()
        found.append((loss, *torch.autograd.grad(loss, leaves_of(loss))))
    assert all(torch.allclose(one, other) for one, other in zip(*found, strict=True))


def test_a_small_program_says_it_without_being_asked_to_look() -> None:
    w = torch.tensor([-3.0, -1.0], requires_grad=True)
    with seegrad.record() as rec:
        (torch.relu(w) + 1).sum().backward()
    (found,) = rec.diagnoses
    assert (found.kind, found.node, dict(found.arguments)["cause"]) == ("gradient_is_zero", "ReluBackward0", "dead")


def test_numbers_overwritten_behind_a_sigmoid_s_back_are_not_called_saturated() -> None:
    w = torch.ones(3, requires_grad=True)
    with seegrad.record(check_nan=True) as rec:
        out = w.sigmoid()
        loss = out.sum()
        out.data.zero_()
        loss.backward()
    assert [each.kind for each in rec.diagnoses] == ["silent_corruption"]


@pytest.mark.parametrize(("begin", "told"), [(-1.0, []), (2.0, ["gradient_is_zero"])])
def test_of_a_long_loop_the_forgotten_calls_count(begin: float, told: list[str]) -> None:
    """A spread that is learned until a clamp holds it has had gradients; one that begins behind it never had any."""
    spread, mean = nn.Parameter(torch.tensor([begin])), nn.Parameter(torch.zeros(1))
    optimizer, held = torch.optim.SGD([spread, mean], lr=0.05), list[float]()
    with seegrad.record() as rec:
        for lap in range(400):
            loss = (spread.clamp(max=1) - 3).square().sum() + (mean - lap).square().sum()
            optimizer.zero_grad()
            loss.backward()
            held.append(spread.grad.item() if spread.grad is not None else 0.0)
            optimizer.step()
    assert any(held[:9]) is not bool(told)
    assert not any(held[-300:])
    assert [each.kind for each in rec.diagnoses] == told


def test_where_one_number_alone_gets_something_nothing_is_said() -> None:
    w = torch.tensor([-3.0, 1.0], requires_grad=True)
    with seegrad.record(check_nan=True) as rec:
        (torch.relu(w) + 1).sum().backward()
    assert not rec.diagnoses


@pytest.mark.parametrize("name", [name for name in programs() if name.startswith("kz_")])
def test_zeros_that_are_right_get_nothing(name: str) -> None:
    assert not seen(name).recording.diagnoses


@pytest.mark.parametrize(
    ("bend", "node"),
    [
        (lambda x: torch.softmax(x * 1e5, 0), "SoftmaxBackward0"),
        (lambda x: torch.nn.functional.gelu(x - 60), "GeluBackward0"),
        (lambda x: torch.nn.functional.hardtanh(x + 5), "HardtanhBackward0"),
    ],
)
def test_every_function_that_is_flat_somewhere_can_be_saturated(bend: Any, node: str) -> None:
    w = torch.linspace(0.1, 1.0, 30).requires_grad_()
    with seegrad.record(check_nan=True) as rec:
        (bend(w) * torch.arange(30.0) + 1).sum().backward()
    assert w.grad is not None
    assert not w.grad.any()
    (found,) = rec.diagnoses
    assert (found.node, dict(found.arguments)["cause"]) == (node, "saturated")
