"""Schedules and scalers: the mend, applied, gives what the program gives without them or with torch's own order."""

from __future__ import annotations

import pytest
import torch
from torch.optim import lr_scheduler

import seegrad
from tests.data.programs import programs
from tests.library.diagnose.training.mended import mended
from tests.library.recorded import seen

RIGHT = [name for name, each in programs().items() if each.kind is None and each.run.__module__.endswith(".schedules")]

LATER = {
    "s_once_an_epoch_at_its_beginning": [
        ("        scheduler.step()\n", ""),
        ("            optimizer.step()\n", "            optimizer.step()\n        scheduler.step()\n"),
    ],
    "s_in_each_step_of_a_trainer": [
        ("            self.lr_scheduler.step()\n", ""),
        ("self.optimizer.step()", "self.optimizer.step()\n            self.lr_scheduler.step()"),
    ],
    "s_a_warm_up_that_loses_its_first_value": [
        ("        warmup.step()\n", ""),
        ('rates.append(opt.param_groups[0]["lr"])', 'rates.append(opt.param_groups[0]["lr"])\n        warmup.step()'),
    ],
    "s_a_cosine_for_two_optimisers": [
        ("        sched_d.step()\n", ""),
        ("opt_d.step()", "opt_d.step()\n        sched_d.step()"),
    ],
}
UNSCALED = {
    "s_clipped_before_the_scaler_steps": [
        ("torch.nn.utils.clip", "scaler.unscale_(optimizer)\n            torch.nn.utils.clip")
    ],
    "s_clipped_and_unscaled_afterwards": [
        ("            self.scaler.unscale_(self.opt)\n", ""),
        (
            "            self.clip_gradients()\n",
            "            self.scaler.unscale_(self.opt)\n            self.clip_gradients()\n",
        ),
    ],
    "s_values_clipped_while_scaled": [("torch.nn.utils.clip", "scaler.unscale_(opt)\n            torch.nn.utils.clip")],
    "s_one_of_two_optimisers_is_unscaled": [
        ("        scaler.unscale_(opt_e)\n", "        scaler.unscale_(opt_e)\n        scaler.unscale_(opt_d)\n")
    ],
}
ONCE_AN_EPOCH = {
    "s_rate_of_epochs_moved_by_batches": [
        ("            scheduler.step()\n", "            pass\n        scheduler.step()\n"),
    ],
    "s_cosine_counts_epochs_in_a_trainer": [
        ("                self.sched.step()\n", "                pass\n            self.sched.step()\n"),
    ],
}
SCALER = 'GradScaler("cpu"'


def weights(held: dict[str, object]) -> list[torch.Tensor]:
    """Of all modules that the program has, in order."""
    found = [each for each in held.values() if isinstance(each, torch.nn.Module)]
    trainer = held.get("trainer")
    found += [trainer.model] if trainer is not None else []  # type: ignore[attr-defined]  # the program's own class
    return [weight for module in found for weight in module.parameters()]


def test_every_broken_program_is_mended() -> None:
    broken = {name for name, each in programs().items() if each.kind and each.run.__module__.endswith(".schedules")}
    assert broken == LATER.keys() | UNSCALED.keys() | ONCE_AN_EPOCH.keys()


@pytest.mark.parametrize("name", LATER)
def test_the_schedule_begins_at_its_beginning(name: str) -> None:
    after = mended(name, *LATER[name])
    assert not after.kinds
    assert after.held.get("rates", [0.01])[0] == pytest.approx(0.01)


@pytest.mark.parametrize("name", ONCE_AN_EPOCH)
def test_once_an_epoch_there_is_a_rate_to_the_end(name: str) -> None:
    assert [each.kind for each in seen(name).recording.diagnoses] == ["rate_run_out"]
    assert not mended(name, *ONCE_AN_EPOCH[name]).kinds


def test_the_steps_that_changed_next_to_nothing_are_counted() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = lr_scheduler.ExponentialLR(optimizer, gamma=0.1)
    with seegrad.record() as rec:
        for _ in range(30):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            scheduler.step()
    (found,) = rec.diagnoses
    assert "from `0.5` down to" in found.message("en")
    assert "of the first 24 steps" in found.message("en")
    assert "the last 20 changed next to nothing" in found.message("en")


@pytest.mark.parametrize("name", UNSCALED)
def test_unscaled_first_it_trains_as_without_a_scaler(name: str) -> None:
    """Oracle: the same program with its scaler switched off."""
    after = mended(name, *UNSCALED[name])
    without = mended(name, (SCALER, f"{SCALER}, enabled=False"))
    scaled = mended(name)
    assert not after.kinds
    close = [torch.allclose(a, b, atol=1e-6) for a, b in zip(weights(after.held), weights(without.held), strict=True)]
    assert all(close)
    assert scaled.kinds == ["clipped_while_scaled"]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_order_gets_no_note(name: str) -> None:
    assert not seen(name).recording.diagnoses


def test_schedules_of_schedules_get_no_note() -> None:
    model = torch.nn.Linear(2, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    with seegrad.record() as rec:
        warm, decay = lr_scheduler.LinearLR(opt, total_iters=2), lr_scheduler.StepLR(opt, 2)
        after = lr_scheduler.SequentialLR(opt, [warm, decay], milestones=[2])
        beside = lr_scheduler.ChainedScheduler([lr_scheduler.ExponentialLR(opt, 0.9), lr_scheduler.ConstantLR(opt)])
        for _ in range(3):
            opt.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            opt.step()
            after.step()
            beside.step()
    assert not rec.diagnoses


def test_a_recording_that_begins_later_says_nothing() -> None:
    """An epoch was trained before the block: the schedule stands at 1, as it should."""
    model = torch.nn.Linear(2, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(opt, 1)

    def epoch() -> None:
        opt.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        opt.step()
        scheduler.step()

    epoch()
    with seegrad.record() as rec:
        epoch()
    assert not rec.diagnoses
