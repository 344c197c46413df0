"""Both corpora on an accelerator: nothing changes by recording, and the same lines are named as on the CPU."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Iterator

import pytest
import torch

import seegrad
from tests.data.programs import Program, programs
from tests.data.transparency import wholes
from tests.data.transparency.observe import observe

CPU_ONLY = frozenset(
    {
        "w_shared_with_numpy",  # numpy sees the CPU's memory
        "w_loaded_in_batches",  # a loader's sampler draws on the CPU
        "w_packed_gru",  # lengths of packed sequences are the CPU's
    }
)
"""Whole programs that say themselves that they run on the CPU, or that torch lets run nowhere else."""

UNSEEN_THERE = frozenset({"numpy", "from_numpy", "memmap", "frombuffer", "ctypes"})
"""Ways to write a tensor's bytes that only the CPU's memory has: a program that speaks of them stays at home."""


@pytest.fixture(scope="module", autouse=True)
def the_collector_sees_all_again() -> Iterator[None]:
    """`observe` puts what lives out of its sight."""
    yield
    gc.unfreeze()


def moves(program: Program) -> bool:
    """True for a program that has nothing to do with the CPU's own memory."""
    code = program.run.__code__
    return UNSEEN_THERE.isdisjoint(code.co_names)


def lines(program: Program) -> list[tuple[str, str, int | None, int | None]]:
    """(kind, severity, culprit's line, victim's line) of every Diagnosis above a note."""
    torch.manual_seed(0)
    rec = seegrad.record(detail=program.detail)
    with warnings.catch_warnings(), contextlib.suppress(Exception), rec:  # whether it raises is torch's affair
        warnings.simplefilter("ignore")  # torch says some things once only
        program.run()
    return [
        (each.kind, each.severity, each.culprit and each.culprit.line, each.victim and each.victim.line)
        for each in rec.diagnoses
        if each.severity != "note"
    ]


@pytest.mark.parametrize("name", [name for name in wholes() if name not in CPU_ONLY])
def test_whole_programs_show_the_same(name: str, on_device: str) -> None:
    run = wholes()[name]
    observe(run, None)
    expected = observe(run, None)
    if observe(run, None) != expected:
        pytest.skip(f"two plain runs of this program differ on {on_device}")
    assert observe(run, "default") == expected


@pytest.mark.parametrize("name", [name for name, program in programs().items() if moves(program)])
def test_the_same_lines_are_named_as_on_the_cpu(name: str, on_device: str) -> None:
    program = programs()[name]
    torch.set_default_device("cpu")
    expected = lines(program)
    torch.set_default_device(on_device)
    assert lines(program) == expected


def test_a_recording_of_a_device_names_it_and_reads_nothing_back(on_device: str) -> None:
    with seegrad.record() as rec:
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.data.zero_()
        y.sum().backward()
    assert [each.kind for each in rec.diagnoses] == ["silent_corruption"]
    assert all(each.device.startswith(on_device) for each in rec.recording.tensors)
    shown = [numbers for frame in rec.frames for _, numbers in frame.values]
    assert on_device == "cpu" or all(numbers is None for numbers in shown)
