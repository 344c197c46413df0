"""Both corpora on an accelerator: nothing changes by recording, and the same lines are named as on the CPU."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import seegrad
from nbjudge_tests.session import some
from tests.data.programs import Program, programs
from tests.data.transparency import wholes
from tests.data.transparency.observe import observe
from tests.device import elsewhere

DEVICE = elsewhere.chosen()

CPU_ONLY = frozenset(
    {
        "w_shared_with_numpy",  # numpy sees the CPU's memory
        "w_loaded_in_batches",  # a loader's sampler draws on the CPU
        "w_packed_gru",  # lengths of packed sequences are the CPU's
        "f_save_on_cpu_of_a_cpu_tensor",  # nothing is copied there
        *("e_layers_summed_by_numpy", "e_losses_of_all_tasks_as_an_array"),  # numpy takes what the CPU's memory holds
        "th_layers_that_are_built_and_never_called",  # gloo tells others of what the CPU's memory holds
        "th_legal_layers_that_are_called_now_and_then",
    }
)
"""Programs that say themselves that they run on the CPU, or that torch lets run nowhere else."""

ENDS_THE_PROCESS = frozenset(
    {
        *("w_hook_that_raises", "w_hook_that_interrupts", "w_own_exception_class", "o_a_hook_that_raises"),
        *("w_pickled", "w_saved_and_loaded", "c_layer_that_is_left_out_the_second_time"),
        *("c_cache_that_the_first_run_has_filled", "v_a_gradient_inside_a_hook"),
        *("v_a_gradient_inside_a_function_s_backward", "kv_gradients_where_they_are_switched_on_again"),
        *("u_checkpoint_assigned_behind_the_optimiser", "m_hook_of_a_classifier_behind_a_detach"),
        *("m_frozen_block_in_a_checkpoint_of_its_own", "a_layers_of_an_encoder_dropped_by_python"),
        *("a_contrast_of_a_patch_drawn_by_numpy", "a_refinement_that_ends_once_it_was_seen"),
        *("c_path_left_out_by_a_draw_that_goes_on", "m_hook_that_returns_the_gradient_of_the_result_too"),
        "a_hook_that_returns_the_norm_for_the_log",
    }
)
"""Where a device is written in Python, torch survives no error that a hook raises in the engine's thread, no backward
within a backward, and can't make the storage that it reads from a file."""

SECONDS = frozenset(
    {
        *("w_compiled", "w_compiled_by_aot", "w_optimisers_of_the_first_order", "w_adams", "w_lbfgs", "w_gradcheck"),
        "w_adversaries",
    }
)
"""Whole programs that take long, in torch."""

BYTES_ARE_READ = frozenset(
    {
        *("g_trust_region_step_that_gives_new_memory", "c05_batch_norm", "c05_version_held_back"),
        *("c05_data_other_bytes", "c05_data_written_and_restored", "c05_relu_reads_the_sign_only", "q_storage_filled"),
        *("u_averaged_linear_weights_swapped_in", "u_batch_norm_back_to_training_before_backward"),
        "u_hook_that_clips_another_leaf_through_data",
        *("u_hook_that_updates_through_data_between_two_backwards", "w_momentum_encoder_is_the_encoder"),
        *("w_the_sum_is_trained_again_and_again", "q_shared_through_dlpack"),
    }
)
"""Bytes are compared on the CPU only: on a device a write that no version shows is missed, or thought to hurt."""

NUMBERS_ARE_READ = frozenset(
    {
        *("c_dropout_of_a_generator_that_goes_on", "c_mask_drawn_by_a_generator_of_its_own", "c_counter_that_warms_up"),
        *("q_colours_that_are_equal", "q_gradients_projected_on_one_of_zero", "n_missing_depths_behind_where"),
        *("n_missing_targets_squared_before_the_mask", "q_silent_bands", "j_nodes_without_neighbours"),
        *("j_choices_of_those_that_are_done", "l_pruned_once_and_trained_on", "c_switch_of_a_whole_network"),
        *("c_counter_beside_a_generator_that_goes_on", "m_stars_whose_distance_to_themselves_is_masked"),
        *("si_frozen_body_with_a_fresh_head", "si_head_of_more_classes_is_all_that_learns"),
        *("si_table_with_more_rows_is_frozen_then", "si_frozen_table_gets_more_rows"),
    }
)
"""Without `check_nan` numbers are looked at on the CPU only: of a device nobody waits for them."""

UNSEEN_THERE = frozenset({"numpy", "from_numpy", "as_tensor", "memmap", "frombuffer", "ctypes"})
"""Ways to write a tensor's bytes that only the CPU's memory has: a program that speaks of them stays at home."""


def moves(program: Program) -> bool:
    """True for a program that has nothing to do with the CPU's own memory."""
    code = program.run.__code__
    return UNSEEN_THERE.isdisjoint(code.co_names)


def names(found: Iterable[str]) -> list[str]:
    """Those that can run on the device."""
    left_out = CPU_ONLY | (ENDS_THE_PROCESS if DEVICE == elsewhere.NAME else frozenset())
    return [name for name in found if name not in left_out]


def quick(found: Iterable[str]) -> list[Any]:
    """Parameters: those that take seconds run where all is tested."""
    return [pytest.param(name, marks=[pytest.mark.whole] if name in SECONDS else []) for name in names(found)]


@dataclass(frozen=True)
class Run:
    """What one run of a program came to."""

    error: type[Exception] | None
    lines: list[tuple[str, str, int | None, int | None]]  # of every Diagnosis above a note: kind, severity, two lines
    waits: list[elsewhere.Read]  # for the device, while the block ran


def run(program: Program, *, recorded: bool = True) -> Run:
    """One run, recorded or plain."""
    torch.manual_seed(0)
    elsewhere.READS.clear()
    rec = seegrad.record(detail=program.detail, check_nan=program.check_nan)
    error = None
    with warnings.catch_warnings(), rec if recorded else contextlib.nullcontext():
        warnings.simplefilter("ignore")  # torch says some things once only
        try:
            program.run()
        except Exception as raised:  # whether it raises, and what, is torch's affair
            error = type(raised)
    waits = list(elsewhere.READS)
    found = [each for each in (rec.diagnoses if recorded else ()) if each.severity != "note"]
    lines = [
        (each.kind, each.severity, each.culprit and each.culprit.line, each.victim and each.victim.line)
        for each in found
    ]
    return Run(error, lines, waits)


@pytest.mark.parametrize("name", quick(wholes()))
def test_whole_programs_show_the_same(name: str, on_device: str) -> None:
    program = wholes()[name]
    observe(program, None)
    elsewhere.READS.clear()
    expected, waits = observe(program, None), list(elsewhere.READS)
    if observe(program, None) != expected:
        pytest.skip(f"two plain runs of this program differ on {on_device}")
    elsewhere.READS.clear()
    assert observe(program, "default") == expected
    assert ops(elsewhere.READS) == ops(waits), elsewhere.READS


def ops(waits: Iterable[elsewhere.Read]) -> list[str]:
    """What the host waited for while the program ran; where, depends on who called."""
    return [each.op for each in waits if not told_at_the_end(each)]


def told_at_the_end(read: elsewhere.Read) -> bool:
    """True for the numbers of a Recording that was asked for, as it is where an error leaves its block."""
    return "/seegrad/capture/tables/frames.py:" in read.place and read.place.endswith(" fetch")


@pytest.mark.parametrize("name", some(25, names(name for name, program in programs().items() if moves(program))))
def test_the_same_lines_are_named_as_on_the_cpu(name: str, on_device: str) -> None:
    program = programs()[name]
    torch.set_default_device("cpu")
    expected, error = run(program), run(program, recorded=False).error
    torch.set_default_device(on_device)
    plain = run(program, recorded=False)
    if plain.error is not error:
        pytest.skip(f"{on_device} can't run this program: {plain.error}")
    recorded = run(program)
    assert ops(recorded.waits) == ops(plain.waits), recorded.waits
    if name in BYTES_ARE_READ and on_device != "cpu":
        pytest.xfail("bytes are compared on the CPU only")
    if name in NUMBERS_ARE_READ and on_device != "cpu":
        pytest.xfail("numbers are looked at on the CPU only")
    assert recorded.lines == expected.lines


def test_a_recording_shows_the_numbers_of_a_device_and_waits_for_none(on_device: str) -> None:
    def example() -> seegrad.record:
        with seegrad.record() as rec:
            x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
            x.register_hook(lambda gradient: gradient * 2)
            elsewhere.READS.clear()
            y = x.exp()
            y.data.zero_()
            (y * torch.arange(2)).sum().backward()
            assert not elsewhere.READS
        return rec

    there = example()
    torch.set_default_device("cpu")
    here = example()
    assert [each.kind for each in there.diagnoses] == ["silent_corruption"]
    assert all(each.device.startswith(on_device) for each in there.recording.tensors)
    assert [each.values for each in there.frames] == [each.values for each in here.frames]
    assert [each.gradients for each in there.frames] == [each.gradients for each in here.frames]
    assert there.recording.hooks == here.recording.hooks


@pytest.mark.parametrize("by_view", [True, False])
def test_a_tensor_that_gets_other_bytes_leaves_its_views_theirs(by_view: bool, on_device: str) -> None:
    """Where bytes aren't compared either: `.data =` writes nothing, but what was saved of the tensor itself follows."""
    weight = torch.ones(2, 2, requires_grad=True, device=on_device)
    x = torch.ones(4, 2, requires_grad=True, device=on_device)
    with seegrad.record() as rec:
        y = x @ (weight.t() if by_view else weight)
        weight.data = weight.data * 3
        y.sum().backward()
    assert x.grad is not None
    assert x.grad[0, 0] == (2 if by_view else 6)  # 2 is the slope
    assert [each.kind for each in rec.diagnoses] == ([] if by_view else ["silent_corruption"])
