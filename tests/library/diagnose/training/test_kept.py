"""Graphs that live on: the mend that each sentence proposes, applied; what they hold, and who holds nothing."""

from __future__ import annotations

import pytest
import torch

import seegrad
from seegrad.model.recording import Recording
from tests.data.programs import programs
from tests.library.diagnose.training.mended import mended
from tests.library.recorded import seen

RIGHT = [name for name, each in programs().items() if each.kind is None and each.run.__module__.endswith(".kept")]

MENDS = {
    "g_running_loss_of_an_epoch": ("running_loss += loss", "running_loss += loss.item()"),
    "g_smoothed_loss_for_the_progress_bar": ("self.meter.update(loss)", "self.meter.update(loss.detach())"),
    "g_parts_of_the_loss_in_a_dict": ('logs["kl"] += kl', 'logs["kl"] += kl.item()'),
    "g_validation_loss_without_no_grad": (
        "val_loss, _accuracy = validate(loader(4))",
        "with torch.no_grad():\n            val_loss, _accuracy = validate(loader(4))",
    ),
    "g_losses_in_a_list": ("losses.append(loss)", "losses.append(loss.detach())"),
    "g_outputs_kept_for_the_metric": ("self.outputs.append(out)", "self.outputs.append(out.detach())"),
    "g_predictions_of_the_validation_set": (
        "    preds, targets = predict(loader(5))",
        "    with torch.no_grad():\n        preds, targets = predict(loader(5))",
    ),
    "g_a_window_of_the_last_losses": ('{"loss": loss,', '{"loss": loss.detach(),'),
    "g_results_of_each_epoch_handed_back": (
        "results.append(hives.learn(x, y))",
        'results.append({"loss": hives.learn(x, y)["loss"].detach()})',
    ),
    "g_results_under_another_name": (
        "results.append(hives.learn(x, y))",
        'results.append({"loss": hives.learn(x, y)["loss"].detach()})',
    ),
    "g_hidden_state_with_retain_graph": ("cell(stream[t], hidden)", "cell(stream[t], hidden.detach())"),
    "g_memory_of_an_agent": ("0.5 * memory + 0.5 * new", "0.5 * memory.detach() + 0.5 * new.detach()"),
}


def test_every_broken_program_is_mended() -> None:
    broken = {name for name, each in programs().items() if each.kind and each.run.__module__.endswith(".kept")}
    assert broken == MENDS.keys()


@pytest.mark.parametrize("name", MENDS)
def test_the_mend_keeps_no_graph(name: str) -> None:
    assert "graph_kept" not in mended(name, MENDS[name]).kinds


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_loop_gets_no_note(name: str) -> None:
    assert not seen(name).recording.diagnoses


def test_the_mended_state_needs_no_retain_graph() -> None:
    """The oracle is torch: with the `.detach()` that is proposed, backward runs without it."""
    after = mended(
        "g_hidden_state_with_retain_graph", MENDS["g_hidden_state_with_retain_graph"], ("retain_graph=True", "")
    )
    assert after.recording.error is None


def test_what_is_held_is_what_the_graphs_save() -> None:
    """Oracle: torch's own saved tensors, kept by hooks, of three laps of a validation."""
    model = torch.nn.Linear(8, 8)
    saved: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, torch.nn.Parameter) and tensor.untyped_storage().data_ptr() not in own:
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    own = {each.untyped_storage().data_ptr() for each in model.parameters()}
    with seegrad.record() as rec:
        model(torch.ones(1, 8)).sum().backward()
        inputs = [torch.full((4, 8), float(n)) for n in range(3)]
        outputs = [model(x).exp() for x in inputs]
        torch.stack(outputs)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        kept = [model(x).exp() for x in inputs]
    (found,) = rec.diagnoses
    assert found.kind == "graph_kept"
    assert f"{sum(saved.values())} B" in found.message("en")
    assert len(kept) == 3


@pytest.mark.slow
def test_a_long_loop_is_told_too_and_stays_small() -> None:
    weight = torch.ones(2, requires_grad=True)
    opt = torch.optim.SGD([weight], lr=0.01)
    with seegrad.record() as rec:
        total = torch.zeros(1)
        for _ in range(1_000):
            opt.zero_grad()
            loss = (weight * weight).sum()
            loss.backward()
            opt.step()
            total = total + loss
    assert [each.kind for each in rec.diagnoses] == ["graph_kept"]


def test_what_was_collected_is_read_back() -> None:
    recording = seen("g_losses_in_a_list").recording
    assert recording.collected
    assert Recording.from_json(recording.to_json()) == recording
