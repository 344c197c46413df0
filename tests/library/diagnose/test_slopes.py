"""Custom Functions beside central differences: mends, applied; what is left alone; that nothing is disturbed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import seegrad
from tests.data.programs import programs
from tests.library.diagnose.training.mended import mended
from tests.library.recorded import seen

OWN = {name: each for name, each in programs().items() if each.run.__module__.endswith(".slopes")}

MENDS = {
    "p_backward_that_ignores_what_it_is_given": ("return 3 * x**2", "return grad_output * 3 * x**2"),
    "p_swish_with_half_of_its_derivative": ("sigmoid * (1 - sigmoid)", "(sigmoid + i * sigmoid * (1 - sigmoid))"),
    "p_two_gradients_in_the_wrong_order": (
        "grad_output * value * s * (1 - s), grad_output * s",
        "grad_output * s, grad_output * value * s * (1 - s)",
    ),
    "p_scale_forgotten_in_backward": (
        "return grad_output @ weight, grad_output.t() @ x, None",
        "grad_output = grad_output * ctx.scale\n            return grad_output @ weight, grad_output.t() @ x, None",
    ),
}
GIVEN = {"Gate": 2, "Cubed": 1, "Swish": 1}


def test_every_broken_program_has_its_mend() -> None:
    assert set(MENDS) == {name for name, each in OWN.items() if each.kind}


@pytest.mark.parametrize("name", MENDS)
def test_the_mended_function_passes_torch_s_own_check(name: str) -> None:
    """Oracle: gradcheck, which fails without the mend."""
    verdicts = []
    for edits in ((), (MENDS[name],)):
        held = mended(name, *edits, check_functions=True)
        verdicts.append((held.kinds, checked(held.held)))
    assert verdicts == [(["backward_disagrees"], False), ([], True)]


def checked(held: dict[str, Any]) -> bool:
    (function,) = [each for each in held.values() if isinstance(each, type)]
    double = torch.float64
    inputs: tuple[Any, ...] = tuple(
        torch.randn(4, 6, dtype=double, requires_grad=True) for _ in range(GIVEN.get(function.__name__, 0))
    )
    if not inputs:
        weight = torch.randn(4, 3, dtype=double, requires_grad=True)
        inputs = (torch.randn(5, 3, dtype=double, requires_grad=True), weight, 0.5)
    return torch.autograd.gradcheck(function.apply, inputs, raise_exception=False)


@pytest.mark.parametrize("name", [name for name, each in OWN.items() if each.kind is None])
def test_a_right_function_gets_no_note(name: str) -> None:
    assert not seen(name).recording.diagnoses


class Straight(torch.autograd.Function):
    """A rounding whose gradient is passed on as it is."""

    runs = 0

    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
        Straight.runs += 1
        return x.round()

    @staticmethod
    def backward(_ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:  # type: ignore[override]  # torch's own stub
        return grad_output


def trained(**options: Any) -> tuple[seegrad.record, torch.Tensor, torch.Tensor]:
    """What was recorded, the gradient, and what the generator draws next."""
    torch.manual_seed(3)
    x = torch.randn(5, requires_grad=True)
    with seegrad.record(**options) as rec:
        (Straight.apply(x * 2) * torch.rand(5)).sum().backward()
    assert x.grad is not None
    return rec, x.grad, torch.rand(3)


def test_what_may_be_meant_is_a_note_that_says_so() -> None:
    rec, *_ = trained(check_functions=True)
    (found,) = rec.diagnoses
    assert found.severity == "note"
    assert "if it's meant to differ (straight-through, a reversed gradient), leave it" in found.message("en")


def test_numbers_and_generator_stay_what_they_are() -> None:
    _, gradient, after = trained()
    _, same, same_after = trained(check_functions=True)
    assert torch.equal(gradient, same)
    assert torch.equal(after, same_after)


def test_without_the_option_nothing_runs_again() -> None:
    before = Straight.runs
    rec, *_ = trained()
    assert Straight.runs == before + 1
    assert not rec.diagnoses


def test_a_function_that_refuses_doubles_is_left_alone() -> None:
    class Single(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
            if x.dtype != torch.float32:
                raise TypeError(x.dtype)
            return x * 2

        @staticmethod
        def backward(_ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:  # type: ignore[override]  # torch's own stub
            return grad_output

    x = torch.ones(3, requires_grad=True)
    with seegrad.record(check_functions=True) as rec:
        Single.apply(x).sum().backward()
    assert not rec.diagnoses


def test_each_kind_of_use_is_compared_however_often_another_came_before() -> None:
    class Power(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, power: int) -> torch.Tensor:
            ctx.save_for_backward(x)
            ctx.power = power
            return x**power

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]  # torch's own stub
            (x,) = ctx.saved_tensors
            return grad_output * 2 * x, None  # right for the square alone

    x = torch.linspace(0.5, 2, 5).requires_grad_()
    with seegrad.record(check_functions=True) as rec:
        for power in (2, 2, 2, 2, 2, 3):
            Power.apply(x, power).sum().backward()
    (found,) = rec.diagnoses
    assert found.kind == "backward_disagrees"


def test_a_recording_with_a_check_can_be_stored() -> None:
    rec, *_ = trained(check_functions=True)
    assert seegrad.Recording.from_json(rec.to_json()) == rec.recording
