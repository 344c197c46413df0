"""Checkpoints that run otherwise the second time: the mend gives what no checkpoint gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import seegrad
from tests.data.programs import programs
from tests.library.diagnose.training.mended import mended
from tests.library.recorded import seen

ONCE = "    torch.manual_seed(1)\n"
MENDS = {
    "c_dropout_of_a_generator_that_goes_on": [(", preserve_rng_state=False", "")],
    "c_switch_of_a_whole_network": [("preserve_rng_state = False", "preserve_rng_state = True")],
    "c_path_left_out_by_a_draw_that_goes_on": [("preserve_rng_state=False", "preserve_rng_state=True")],
    "c_counter_beside_a_generator_that_goes_on": [("            self.calls += 1\n", "            self.calls = 2\n")],
    "c_mask_drawn_by_a_generator_of_its_own": [(", generator=self.generator", "")],
    "c_counter_that_warms_up": [("            self.calls += 1\n", "")],
    "c_another_branch_the_second_time": [("first, self.first = self.first, not self.first", "first = self.first")],
    "c_cache_that_the_first_run_has_filled": [("caches = [{} for _ in layers]", "caches = [None for _ in layers]")],
    "c_layer_that_is_left_out_the_second_time": [("                self.cache = h.detach()\n", "")],
}
"""Program → what its advice makes of it."""

OWN = {name: each for name, each in programs().items() if each.run.__module__.endswith(".checkpoints")}
BROKEN = [name for name, each in OWN.items() if each.kind is not None]


def test_every_broken_program_has_its_mend() -> None:
    assert set(MENDS) == set(BROKEN)


@pytest.mark.parametrize("name", MENDS)
def test_the_mend_ends_it(name: str) -> None:
    assert [each.kind for each in seen(name).recording.diagnoses] == ["recomputed_otherwise"]
    assert not mended(name, *MENDS[name]).kinds


@pytest.mark.parametrize("name", [name for name in OWN if name not in BROKEN])
def test_what_is_the_same_both_times_gets_no_note(name: str) -> None:
    assert not seen(name).recording.diagnoses


def test_the_line_that_reads_what_was_left_is_named() -> None:
    """And what came there in the forward."""
    (found,) = seen("c_cache_that_the_first_run_has_filled").recording.diagnoses
    assert found.culprit is not None
    assert 'torch.cat([cache["keys"], keys], 1)' in found.culprit.code
    assert "calls `cat`, where the forward has called `transpose`" in found.message()


def run(recorded: bool) -> tuple[list[torch.Tensor], torch.Tensor, int]:
    torch.manual_seed(0)
    layer, calls = torch.nn.Linear(6, 6), []

    def block(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        return torch.nn.functional.dropout(layer(x).tanh(), 0.5).exp()

    def step() -> None:
        checkpoint(block, torch.randn(5, 6), use_reentrant=False).sum().backward()

    if recorded:
        with seegrad.record():
            step()
    else:
        step()
    return [each.grad.clone() for each in layer.parameters() if each.grad is not None], torch.rand(3), len(calls)


def test_watching_the_second_run_changes_nothing() -> None:
    """Bits, the generator, how often the function is called."""
    (alone, drawn, calls), (watched, drawn_too, calls_too) = run(False), run(True)
    assert all(map(torch.equal, alone, watched))
    assert torch.equal(drawn, drawn_too)
    assert calls == calls_too == 2


def test_a_graph_that_outlives_the_recording_computes_again_unwatched() -> None:
    layer = torch.nn.Linear(3, 3)
    with seegrad.record() as rec:
        out = checkpoint(lambda x: layer(x).tanh().exp(), torch.ones(2, 3), use_reentrant=False)
    out.sum().backward()
    expected = torch.autograd.grad(layer(torch.ones(2, 3)).tanh().exp().sum(), layer.weight)[0]
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad, expected)
    assert not rec.recording.recomputed


FIRST_OF_ALL = """
from tests.library.recorded import seen
print(seen("c_mask_drawn_by_a_generator_of_its_own").recording.diagnoses[0].culprit.code)
"""


@pytest.mark.slow
def test_the_first_checkpoint_of_a_process_is_told_as_any_other() -> None:
    """Torch does more the first time: it makes a `torch.device` for the second run."""
    done = subprocess.run(  # our own program
        [sys.executable, "-c", FIRST_OF_ALL], cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True
    )
    assert "torch.rand" in done.stdout
