"""The benchmarks: each program runs once, small, under each side; a wrong gradient and a missing peer are noticed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks import long, memory, record
from benchmarks.library import paired
from benchmarks.library.paired import measure
from benchmarks.library.programs import NotInstalled, Workload, chain, encoder, gpt2, lstm
from benchmarks.library.sides import PLAIN, SIDES, Side
from tools.words.marks import between_marks

LENGTH = 300  # of a chain that even a clock of ticks can time
GPT2_SMALL = {"n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 50, "n_positions": 8}
PROGRAMS: dict[str, Callable[[], Workload]] = {
    "encoder": lambda: encoder(1, 3, layers=1, width=8),
    "gpt2": lambda: gpt2(4, **GPT2_SMALL),
    "lstm": lambda: lstm(3, batch=2, width=4),
    "chain": lambda: chain(5),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_side_runs_every_program(name: str) -> None:
    try:
        program = PROGRAMS[name]()
    except NotInstalled as missing:
        pytest.skip(f"not installed: {missing}")
    found = measure(program, SIDES, rounds=1)
    assert [each.side.name for each in found] == [side.name for side in SIDES]
    for each in found:
        assert each.ratio is not None or each.stopped.startswith("not installed: "), (each.side.name, each.stopped)
        assert each.same_gradients or not each.side.ours
    table = record.ratio_table(found)
    assert table.rows[0] == ("plain", "×1.00", "")


@pytest.mark.whole
def test_torch_is_as_it_was_after_the_peers() -> None:
    before = torch.add, torch.Tensor.add, torch.nn.functional.relu
    measure(chain(2), SIDES, rounds=1)
    assert before == (torch.add, torch.Tensor.add, torch.nn.functional.relu)


def test_the_gpt2_is_gpt2_s_size() -> None:
    """Without building it: the published model has 124,439,808 parameters."""
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    with torch.device("meta"):
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    assert sum(parameter.numel() for parameter in model.parameters()) == 124_439_808


def twice(program: Workload) -> None:
    program.run()
    for gradient in program.gradients():
        gradient.mul_(2)


def test_a_side_of_ours_that_changes_a_gradient_stops_the_benchmark() -> None:
    with pytest.raises(AssertionError, match="twice changed a gradient"):
        measure(chain(LENGTH), [PLAIN, Side("twice", twice, ours=True)], rounds=1)


def test_a_peer_that_changes_a_gradient_is_noted() -> None:
    found = measure(chain(LENGTH), [PLAIN, Side("twice", twice)], rounds=1)
    assert "not equal to the bit" in found[1].words


def missing(_program: Workload) -> None:
    raise NotInstalled("nowhere")


def failing(_program: Workload) -> None:
    raise RecursionError("too deep\nfor this graph")


def slow(_program: Workload) -> None:
    while time.process_time() < sys.maxsize:
        pass


def test_a_side_without_figures_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "PATIENCE_S", 1)
    sides = [PLAIN, Side("a", missing), Side("b", failing), Side("c", slow)]
    assert [each.words for each in measure(chain(LENGTH), sides, rounds=1)] == [
        "×1.00", "not installed: nowhere", "RecursionError: too deep", "more than 1 s"
    ]  # fmt: skip


@pytest.mark.whole
def test_each_peer_is_named_when_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torchviz", "torchlens", "torchvista", "torch.utils._debug_mode", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    found = measure(chain(LENGTH), SIDES, rounds=1)
    assert [each.stopped.split()[2].strip(",") for each in found if each.stopped] == [
        "DebugMode", "torchviz", "torchlens", "torchvista"
    ]  # fmt: skip
    with pytest.raises(NotInstalled, match="transformers"):
        gpt2(4)


def test_the_median_of_the_rounds_counts() -> None:
    found = paired.Timing("p", PLAIN, ratios=[9.0, 1.0, 1.2])
    assert found.ratio == 1.2


@pytest.mark.parametrize("side", memory.AROUND)
def test_the_training_loop_runs_under_each_side(side: str) -> None:
    peaks = memory.train(side, (1, 2), width=8)
    assert len(peaks) == 2
    assert peaks[0] <= peaks[1]


def test_a_child_measures_its_own_peak() -> None:
    (peak,) = memory.in_a_child("plain", (1,))
    assert 50 << 20 < peak < 20 << 30


@pytest.mark.whole
def test_linear_time_is_told_per_op() -> None:
    table = record.linear((20, 40), rounds=1)
    assert table.head == ("side", "20 ops", "40 ops")
    assert [row[0] for row in table.rows] == ["plain", "record()", "record(), diagnoses asked for"]
    assert all(cell.endswith(" µs") for row in table.rows for cell in row[1:])


def test_memory_is_told_against_plain() -> None:
    table = record.memory_table({"plain": [100.0 * 2**20], "record()": [104.0 * 2**20]}, (50,))
    assert table.rows == (("plain", "100 MiB (+0.0 %)"), ("record()", "104 MiB (+4.0 %)"))


def test_the_page_has_room_for_the_figures() -> None:
    page = (Path(__file__).parents[2] / "docs" / "performance.md").read_text(encoding="utf-8")
    table = record.Table("A title", ("side", "time"), (("plain", "×1.00"),))
    assert "### A title\n\n| side | time |\n|---|---|\n| plain | ×1.00 |" in between_marks(
        page, record.as_markdown(table), record.MARK
    )


@pytest.mark.parametrize(("kind", "said"), [("deep", ["µs per op", "ms to free"]), ("steps", ["ms per step", "MiB"])])
@pytest.mark.whole
def test_a_long_run_tells_each_side_s_figures_at_each_number(kind: str, said: list[str]) -> None:
    lines = [line.strip("| ").split(" | ") for line in long.table(kind, (2, 4)).splitlines()]
    assert lines[0] == ["side", kind, "2", "4"]
    assert [line[:2] for line in lines[2:]] == [[side, what] for side in ("plain", long.RECORDED) for what in said]
    assert all(float(figure.replace(",", "")) >= 0 for line in lines[2:] for figure in line[2:])
