"""What torch refuses outside of a graph: what each sentence advises, done, lets the program come to its end."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch
from torch import nn

import seegrad
from tests.data.programs import programs
from tests.library.diagnose.training.mended import mended
from tests.library.recorded import seen

OWN = {name: each for name, each in programs().items() if each.run.__module__.endswith(".refused")}
ON = "with torch.enable_grad():\n"

MENDS = {
    "v_features_left_on_the_module": [
        ("return self.head(self.tap)", "tap, self.tap = self.tap, None\n            return self.head(tap)")
    ],
    "v_losses_kept_beside_the_best_model": [("self.history.append(loss)", "self.history.append(loss.detach())")],
    "v_weight_norm_as_it_was": [("nn.utils.weight_norm(", "nn.utils.parametrizations.weight_norm(")],
    "v_half_before_the_optimiser": [("    model.half()\n", "")],
    "v_a_head_made_in_half": [(", dtype=torch.float16)\n    opt", ")\n    opt")],
    "v_a_gradient_inside_a_function_s_forward": [
        (
            "            energy = self",
            f"            {ON}                x = x if x.requires_grad else x.detach().requires_grad_()\n"
            "                energy = self",
        ),
        ("            force = ", "                force = "),
    ],
    "v_a_gradient_inside_a_function_s_backward": [
        (
            "            value = ",
            f"            {ON}                x = x if x.requires_grad else x.detach().requires_grad_()\n"
            "                value = ",
        ),
        ("            slope = ", "                slope = "),
    ],
    "v_a_gradient_inside_a_hook": [
        (
            "        size = ",
            f"        {ON}            size = ",
        ),
        ("        return gradient - ", "            return gradient - "),
    ],
}
"""Program → what its advice makes of it."""


def test_every_broken_program_has_its_mend() -> None:
    assert set(MENDS) == {name for name, each in OWN.items() if each.kind is not None}


@pytest.mark.parametrize("name", MENDS)
def test_the_mend_lets_it_run_to_its_end(name: str) -> None:
    first = seen(name).recording.diagnoses[0]
    assert (first.kind, first.severity) == (OWN[name].kind, "error")
    assert not mended(name, *MENDS[name]).kinds


@pytest.mark.parametrize("name", [name for name, each in OWN.items() if each.kind is None])
def test_what_torch_takes_gets_nothing(name: str) -> None:
    assert not seen(name).recording.diagnoses


def test_the_line_that_makes_a_loss_keep_each_element_is_named() -> None:
    with contextlib.suppress(RuntimeError), seegrad.record() as rec:
        criterion = nn.MSELoss(reduction="none")
        out = nn.Linear(2, 2)(torch.ones(3, 2))
        loss = criterion(out, torch.zeros(3, 2))
        loss.backward()
    first = rec.diagnoses[0]
    assert first.kind == "not_a_scalar"
    assert first.culprit is not None
    assert "reduction" in first.culprit.code


def test_a_leaf_that_an_array_is_made_of_is_named() -> None:
    with contextlib.suppress(RuntimeError), seegrad.record() as rec:
        weight = nn.Parameter(torch.ones(3))
        np.exp(weight)
    first = rec.diagnoses[0]
    assert (first.kind, first.tensor) == ("numpy_of_a_result", "weight")
    assert "`torch.exp(…)`" in first.message("en")
