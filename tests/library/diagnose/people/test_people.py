"""Programs as people write them: what is meant so gets no note, and each advice, carried out, ends its finding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from seegrad.__main__ import main
from tests.data.programs import programs
from tests.library.diagnose.training.mended import mended
from tests.library.recorded import seen

OWN = {name: each for name, each in programs().items() if each.run.__module__.endswith(".people")}

MADE_BEFORE = """\
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model, optimizer)
"""
MADE_OF_ALL = """\
    trainer = Trainer(model, None)
    trainer.optimizer = torch.optim.SGD([*model.parameters(), *trainer.criterion.parameters()], lr=0.1)
"""
SLOPES = "torch.where(target > guess, -0.9, 0.1) / guess.numel(), None"
STEP = "                self.optimizer.step()\n"

MENDS = {
    "y_advantage_trains_the_critic": [("returns - values, values", "(returns - values).detach(), values")],
    "y_normalised_advantage_trains_the_critic": [("= returns - values", "= returns - values.detach()")],
    "y_inner_steps_of_the_first_order": [("grad(loss, fast)", "grad(loss, fast, create_graph=True)")],
    "y_experts_in_a_list": [
        ("self.experts = [", "self.experts = nn.ModuleList(["),
        ("for _ in range(2)]\n\n", "for _ in range(2)])\n\n"),
    ],
    "y_weights_of_the_losses": [(MADE_BEFORE, MADE_OF_ALL)],
    "y_pruned_weights_are_new_parameters": [
        (
            "model[0].weight = nn.Parameter(weight * (weight.abs() > 0.05))",
            "torch.no_grad()(model[0].weight.copy_)(weight * (weight.abs() > 0.05))",
        )
    ],
    "y_perturbation_is_another_one_in_each_step": [
        ("delta = delta.detach().clamp(-0.1, 0.1).requires_grad_(True)", "torch.no_grad()(delta.clamp_)(-0.1, 0.1)")
    ],
    "y_adapters_frozen_with_their_base": [("first=False", "first=True")],
    "y_hidden_state_handed_on_by_a_trainer": [(STEP, f"{STEP}                hidden = hidden.detach()\n")],
    "y_features_by_a_decorated_method": [("        @torch.no_grad()\n", "")],
    "y_spectrum_by_numpy": [
        ("np.fft.rfft(wave.detach().cpu().numpy(), axis=-1)", "torch.fft.rfft(wave, dim=-1)"),
        ("torch.from_numpy(np.log1p(np.abs(parts))).float()", "parts.abs().log1p()"),
    ],
    "y_loss_that_takes_no_heed_of_its_weight": [(f"return {SLOPES}", f"return grad_output * {SLOPES}")],
    "y_rounding_whose_slope_is_one": [("ones_like(grad_output)\n", "ones_like(grad_output) * grad_output\n")],
}
"""Program → what its advice makes of it."""


def test_every_broken_program_has_its_mend() -> None:
    assert set(MENDS) == {name for name, each in OWN.items() if each.kind is not None}


@pytest.mark.parametrize("name", [name for name, each in OWN.items() if each.kind is None])
def test_what_is_meant_so_gets_no_note(name: str) -> None:
    assert not seen(name).recording.diagnoses


@pytest.mark.parametrize("name", MENDS)
def test_the_mend_ends_it(name: str) -> None:
    assert len(seen(name).recording.diagnoses) == 1
    assert not mended(name, *MENDS[name]).kinds


def test_a_number_for_an_advantage_leaves_the_critic_its_own_loss() -> None:
    """Oracle: the critic then moves as it does beside an advantage that has nothing to do with it."""
    name, edit = "y_advantage_trains_the_critic", "returns - values, values"
    runs = ([], MENDS[name], [(edit, "returns - returns.mean(), values")])
    broken, right, alone = ([*mended(name, *edits).held.parameters()] for edits in runs)
    assert all(map(torch.equal, right, alone))
    assert not any(map(torch.equal, broken, alone))


def found_by_the_command(text: str, folder: Path) -> list[dict[str, Any]]:
    """What `seegrad --json` finds in a script."""
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    torch.manual_seed(0)
    main(["--json", str(folder / "found.json"), str(script)])
    found: list[dict[str, Any]] = json.loads((folder / "found.json").read_text(encoding="utf-8"))["findings"]
    return found


VAE = """
import torch
from torch import nn

class Meter(dict):
    def noted(self, **values):
        self.update(values)
        return values

def losses(x, out, mean, meter):
    size = (out - x).pow(2).mean()
    spread = mean.pow(2).sum()
    noted = meter.noted(size=size.item(), spread=spread.item())
    return size + 0.1 * {spread}

model, meter = nn.Linear(3, 3), Meter()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    x = torch.randn(4, 3)
    out = model(x)
    loss = losses(x, out, out.mean(0), meter)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_number_that_was_noted_down_and_added_is_found_where_it_is_taken(tmp_path: Path) -> None:
    (found,) = found_by_the_command(VAE.format(spread='noted["spread"]'), tmp_path)
    assert (found["kind"], found["culprit"]["line"]) == ("constant_term", 13)
    assert not found_by_the_command(VAE.format(spread="spread"), tmp_path)


STYLE = """
import torch
from torch import nn

class Transfer:
    def __init__(self, content):
        self.net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh())
        self.target = self.net(content)
        self.image = content.clone().requires_grad_(True)
        self.optimizer = torch.optim.SGD([self.image], lr=0.1)

    def step(self):
        self.optimizer.zero_grad()
        loss = (self.net(self.image) - self.target{detached}).pow(2).mean()
        loss.backward()
        self.optimizer.step()

transfer = Transfer(torch.rand(1, 1, 5, 5))
for _ in range(3):
    transfer.step()
"""


def test_a_target_that_keeps_its_graph_is_found_where_it_is_computed(tmp_path: Path) -> None:
    (found,) = found_by_the_command(STYLE.format(detached=""), tmp_path)
    assert (found["kind"], found["culprit"]["line"]) == ("graph_freed", 8)
    assert "`self.target.detach()`" in found["message"]
    assert not found_by_the_command(STYLE.format(detached=".detach()"), tmp_path)


def test_a_state_is_called_as_the_loop_calls_it() -> None:
    """Inside of the module it has another name, which is of no use where it must be cut."""
    (found,) = seen("y_hidden_state_handed_on_by_a_trainer").recording.diagnoses
    assert "`hidden = hidden.detach()`" in found.message("en")
