"""Loops that never step or clear too often: each mend that is proposed, applied, trains as the reference does."""

from __future__ import annotations

import pytest
import torch

import seegrad
from tests.data.programs import programs
from tests.library.diagnose.training.mended import Mended, mended
from tests.library.recorded import seen

OWN = {name: each for name, each in programs().items() if each.run.__module__.endswith(".unstepped")}

STEPPED = {
    "u_schedule_in_its_place": [("loss.backward()\n", "loss.backward()\n            optimizer.step()\n")],
    "u_named_and_not_called": [
        ("self.opt.step  # noqa: B018\n", "self.opt.step()\n"),
        ("    Runner(tagger()).fit(2)", "    runner = Runner(tagger())\n    model = runner.model\n    runner.fit(2)"),
    ],
    "u_recurrent_without_a_step": [("loss.backward()\n", "loss.backward()\n            optimizer.step()\n")],
    "u_only_a_scaler_would_step": [("scaler.update()\n", "scaler.update()\n            optimizer.step()\n")],
    "u_one_of_two_never_steps": [("loss_d.backward()\n", "loss_d.backward()\n        opt_d.step()\n")],
}
ONCE = {
    "u_cleared_in_the_inner_loop": [
        ("        optimizer.zero_grad(set_to_none=True)\n", ""),
        ("optimizer.step()\n", "optimizer.step()\n            optimizer.zero_grad(set_to_none=True)\n"),
    ],
    "u_cleared_where_the_model_runs": [
        ("            self.model.zero_grad()\n", ""),
        ("self.optimizer.step()\n", "self.optimizer.step()\n            self.model.zero_grad()\n"),
        ("    worker = Worker()\n", "    worker = Worker()\n    model = worker.model\n"),
    ],
    "u_cleared_after_each_backward_but_the_last": [
        ("            for p in policy.parameters():\n                p.grad = None\n", ""),
        ("optimizer.step()\n", "optimizer.step()\n        policy.zero_grad()\n"),
    ],
    "u_cleared_before_the_last_of_four": [
        ("            optimizer.zero_grad()\n", "            pass\n"),
        ("optimizer.step()\n", "optimizer.step()\n            optimizer.zero_grad()\n"),
    ],
    "u_zeros_instead_of_none": [
        ("            opt.zero_grad(set_to_none=False)\n", ""),
        ("opt.step()\n", "opt.step()\n                opt.zero_grad(set_to_none=False)\n"),
    ],
}
AT_ONCE = "sum(losses).backward(); losses = []"
AS_ONE = {
    "u_cleared_before_the_last_of_four": [
        ("accumulate = 4\n", "accumulate = 4\n    losses = []\n"),
        ("optimizer.zero_grad()\n", "pass\n"),
        ("        loss.backward()\n", "        losses.append(loss)\n"),
        ("optimizer.step()\n", f"{AT_ONCE}; optimizer.step(); optimizer.zero_grad()\n"),
    ],
    "u_cleared_in_the_inner_loop": [
        ("running = 0.0\n    for", "running, losses = 0.0, []\n    for"),
        ("        loss.backward()\n", "        losses.append(loss)\n"),
        ("            torch.nn.utils", f"            {AT_ONCE}\n            torch.nn.utils"),
        ("optimizer.step()\n", "optimizer.step()\n            optimizer.zero_grad()\n"),
        ("        optimizer.zero_grad(set_to_none=True)\n", ""),
    ],
    "u_cleared_where_the_model_runs": [
        ("            self.model.zero_grad()\n", ""),
        ("self.optimizer.step()\n", "self.optimizer.step()\n            self.model.zero_grad()\n"),
        ("            loss.backward()\n            return loss.detach()\n", "            return loss\n"),
        ("        logged.append(sum(losses).item())\n", f"        {AT_ONCE}\n"),
        ("    worker = Worker()\n", "    worker = Worker()\n    model = worker.model\n"),
    ],
    "u_cleared_after_each_backward_but_the_last": [
        ("            for p in policy.parameters():\n                p.grad = None\n", ""),
        ("        for x, action", "        losses = []\n        for x, action"),
        ("            loss.backward()\n", "            losses.append(loss)\n"),
        ("optimizer.step()\n", f"{AT_ONCE}; optimizer.step(); policy.zero_grad()\n"),
    ],
    "u_zeros_instead_of_none": [
        ("            opt.zero_grad(set_to_none=False)\n", ""),
        ("every, seen, log = 2, 0, []", "every, seen, log, losses = 2, 0, [], []"),
        ("            loss.backward()\n", "            losses.append(loss)\n"),
        ("opt.step()\n", f"{AT_ONCE}; opt.step(); opt.zero_grad()\n"),
    ],
}
"""The same program with one backward call for the sum of the losses of a step: what accumulation stands for."""


def weights(after: Mended) -> torch.Tensor:
    held = next(after.held[name] for name in ("model", "policy", "critic") if name in after.held)
    return torch.cat([p.detach().flatten() for p in held.parameters()])


def test_every_broken_program_is_mended() -> None:
    assert STEPPED.keys() | ONCE.keys() == {name for name, each in OWN.items() if each.kind}


@pytest.mark.parametrize("name", STEPPED)
def test_with_its_step_the_loop_trains(name: str) -> None:
    """Oracle: without the mend the weights stand where they were initialised."""
    after = mended(name, *STEPPED[name])
    without = mended(name, *STEPPED[name][1:])
    assert not after.kinds
    assert not torch.equal(weights(after), weights(without))


@pytest.mark.parametrize("name", ONCE)
def test_cleared_once_a_step_it_trains_as_with_one_backward(name: str) -> None:
    after, as_one = mended(name, *ONCE[name]), mended(name, *AS_ONE[name])
    assert not after.kinds
    torch.testing.assert_close(weights(after), weights(as_one), atol=1e-6, rtol=1e-4)
    assert not torch.allclose(weights(mended(name, *ONCE[name][2:])), weights(as_one), atol=1e-6)


@pytest.mark.parametrize("name", [name for name, each in OWN.items() if each.kind is None])
def test_a_loop_that_is_meant_so_gets_no_note(name: str) -> None:
    assert not seen(name).recording.diagnoses


def test_a_scaler_that_skips_its_first_steps_is_no_optimiser_that_never_steps() -> None:
    model = torch.nn.Linear(2, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    with seegrad.record() as rec:
        for _ in range(5):
            opt.zero_grad()
            scaler.scale(model(torch.full((1, 2), 1e38)).sum() * 1e3).backward()
            scaler.step(opt)
            scaler.update()
    assert "never_stepped" not in [each.kind for each in rec.diagnoses]


def test_a_step_after_many_laps_takes_the_note_back() -> None:
    model = torch.nn.Linear(2, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    finish = opt.step
    with seegrad.record() as rec:
        for _ in range(5):
            model(torch.ones(1, 2)).sum().backward()
        assert [each.kind for each in rec.diagnoses] == ["never_stepped"]
        finish()
    assert not rec.diagnoses
