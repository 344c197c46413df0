"""What is advised, done: the program then computes the gradient of the loss that it writes down."""

from __future__ import annotations

import pytest
import torch

from tests.data.programs import programs
from tests.library.diagnose.training.mended import mended
from tests.library.mended import difference
from tests.library.recorded import seen

OWN = {name: each for name, each in programs().items() if each.run.__module__.endswith(".advised")}

AROUND = {
    "v_parameter_that_was_moved": (
        "nn.Parameter(torch.randn(3)).to(torch.float64).to(torch.get_default_dtype())",
        "nn.Parameter(torch.randn(3).to(torch.float64).to(torch.get_default_dtype()))",
    ),
    "v_parameter_that_was_scaled": ("nn.Parameter(torch.randn(3)) * 0.1", "nn.Parameter(torch.randn(3) * 0.1)"),
}


@pytest.mark.usefixtures("doubles")
def test_run_again_after_the_update_the_generator_has_its_own_gradient() -> None:
    """Oracle: central differences of its loss at the discriminator's new weights."""
    again = "        judged = discriminator(fake)\n        loss_g = bce(judged, one)\n"
    held = mended(
        "v_discriminator_steps_between",
        ("        opt_g.zero_grad()\n", f"{again}        opt_g.zero_grad()\n"),
        ("        opt_g.step()\n", ""),
    ).held
    weight = held["generator"].weight

    def loss() -> torch.Tensor:
        return held["bce"](held["discriminator"](held["generator"](held["noise"])), held["one"])

    assert float(weight.grad[0, 0]) == pytest.approx(difference(loss, weight, (0, 0), 1e-6), abs=1e-6)


@pytest.mark.usefixtures("doubles")
def test_made_after_the_second_call_the_update_uses_the_gradients_of_both() -> None:
    """What the sentence says of its other mend."""
    name = "v_discriminator_steps_between"
    held = mended(name, ("        opt_d.step()\n", ""), ("        opt_g.step()\n", "")).held
    weight = held["discriminator"][0].weight

    def both() -> torch.Tensor:
        loss_d = held["bce"](held["discriminator"](held["real"]), held["one"])
        judged = held["discriminator"](held["generator"](held["noise"]))
        return loss_d + held["bce"](judged, held["zero"]) + held["bce"](judged, held["one"])

    assert float(weight.grad[0, 0]) == pytest.approx(difference(both, weight, (0, 0), 1e-6), abs=1e-6)
    said = seen(name).recording.diagnoses[0].message("en")
    assert "run that forward again after it" in said
    assert "If it may use the gradients of both calls" in said


@pytest.mark.parametrize("name", AROUND)
def test_the_parameter_is_made_of_the_finished_numbers_and_learns(name: str) -> None:
    after = mended(name, AROUND[name])
    held = {id(leaf) for group in after.held["optimizer"].param_groups for leaf in group["params"]}
    assert not after.kinds
    assert id(after.held["model"].shift) in held
    assert after.held["model"].shift.grad is not None
    assert "`nn.Parameter(…)` around the whole" in seen(name).recording.diagnoses[0].message("en")


def test_a_head_that_was_put_in_is_told_once() -> None:
    (found,) = seen("v_head_put_in_later").recording.diagnoses
    line = "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    put = "    model[2] = nn.Linear(4, 2)\n"
    assert found.kind == "no_optimiser_holds_it"
    assert not mended("v_head_put_in_later", (line + put, put + line)).kinds


@pytest.mark.parametrize("name", [name for name, each in OWN.items() if each.kind is None])
def test_the_right_ones_get_no_note(name: str) -> None:
    assert not seen(name).recording.diagnoses
