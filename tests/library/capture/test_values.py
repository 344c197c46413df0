"""`record(values=True)`: what is known of tensors that are too big to be shown, against torch itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import seegrad
from seegrad.capture.probes.numbers import BUDGET_BYTES, CELLS, WHOLE
from seegrad.capture.tables.frames import numeral
from seegrad.model.recording import Recording, Summary

Make = Callable[[], torch.Tensor]

# fmt: off
TENSORS: dict[str, Make] = {
    "small row": lambda: torch.linspace(-1, 2, 20),
    "matrix": lambda: torch.randn(33, 17),
    "transposed": lambda: torch.randn(17, 33).T,
    "cube": lambda: torch.randn(3, 5, 7),
    "zeros": lambda: torch.zeros(50),
    "NaN and both infinities": lambda: torch.tensor([math.nan, math.inf, -math.inf, 0.0, 2.0, -3.0] * 9),
    "nothing finite": lambda: torch.full((30,), math.nan),
    "integers": lambda: torch.arange(-9, 30),
    "booleans": lambda: torch.ones(6, 6).tril().bool(),
    "bfloat16": lambda: torch.randn(40).bfloat16(),
    "float64": lambda: torch.randn(40, dtype=torch.float64) * 1e200,
    "exactly whole": lambda: torch.randn(WHOLE),
    "one more": lambda: torch.randn(WHOLE + 1),
    "large": lambda: torch.randn(784, 32),
    "deep": lambda: torch.randn(9, 20, 60, 40),
}
# fmt: on


def summary_of(make: Make) -> tuple[torch.Tensor, Summary]:
    torch.manual_seed(0)
    with seegrad.record(values=True) as rec:
        x = make()
    summaries = [summary for _, summary in rec.frames[-1].summaries if summary]
    return x, summaries[-1]


@pytest.mark.parametrize("name", TENSORS)
def test_its_figures_are_torch_s(name: str) -> None:
    x, told = summary_of(TENSORS[name])
    wide = x.double()
    finite = wide[wide.isfinite()]
    bounds = [finite.min(), finite.max(), finite.norm()] if finite.numel() else []
    assert [told.low, told.high, told.norm] == ([numeral(each.item()) for each in bounds] or ["", "", ""])
    assert told.zeros == int((wide == 0).sum())
    assert (told.nans, told.infinities) == (int(wide.isnan().sum()), int(wide.isinf().sum()))
    assert told.is_finite is bool(wide.isfinite().all())


@pytest.mark.parametrize("name", TENSORS)
def test_each_cell_of_its_strip_is_the_number_furthest_from_0(name: str) -> None:
    x, told = summary_of(TENSORS[name])
    wide = x.double()
    stretches = wide.reshape(-1).split(math.ceil(x.numel() / CELLS))
    assert len(told.strip) == len(stretches) <= CELLS
    for cell, stretch in zip(told.strip, stretches, strict=True):
        if stretch.isnan().any():
            assert cell == "nan"
        else:
            most = stretch.abs().max().item()
            assert cell in (numeral(most), numeral(-most))


@pytest.mark.parametrize("name", TENSORS)
def test_its_numbers_are_kept_whole_or_a_corner_of_them(name: str) -> None:
    x, told = summary_of(TENSORS[name])
    corner = x[tuple(slice(0, side) for side in told.kept)]
    wanted = corner.double() if x.dtype is not torch.float64 and x.is_floating_point() else corner
    assert told.numbers.split(" ") == [numeral(each) for each in wanted.reshape(-1).tolist()]
    assert (told.kept == tuple(x.shape)) is (x.numel() <= WHOLE)
    assert math.prod(told.kept) <= WHOLE


def test_what_they_were_is_kept_when_they_are_written() -> None:
    with seegrad.record(values=True) as rec:
        x = torch.ones(40)
        x.mul_(3)
    found = [summary.high for frame in rec.frames for _, summary in frame.summaries if summary]
    assert found == ["1", "3"]


def test_gradients_have_them_too() -> None:
    x = torch.linspace(1, 2, 30, requires_grad=True)
    with seegrad.record(values=True) as rec:
        (x * x).sum().backward()
    kept = [g.summary for frame in rec.frames for g in frame.gradients if g.kept]
    assert [each.high for each in kept if each] == ["4"]
    assert x.grad is not None
    assert [each.norm for each in kept if each] == [numeral(x.grad.norm().item())]


def test_the_oldest_numbers_give_way_and_their_figures_stay() -> None:
    with seegrad.record(values=True) as rec:
        held = [torch.full((WHOLE,), float(k)) for k in range(40)]
    told = [summary for frame in rec.frames for _, summary in frame.summaries if summary]
    assert [each.high for each in told] == [str(k) for k in range(len(held))]
    whole = [bool(each.numbers) for each in told]
    assert whole == [False] * (40 - sum(whole)) + [True] * sum(whole), "the newest are kept"
    assert sum(whole) == BUDGET_BYTES // (4 * WHOLE)


def test_without_it_nothing_is_kept() -> None:
    with seegrad.record() as rec:
        torch.randn(100, requires_grad=True).sum().backward()
    assert not any(frame.summaries or [g.summary for g in frame.gradients if g.summary] for frame in rec.frames)


def test_a_file_holds_them_and_an_older_file_is_read() -> None:
    with seegrad.record(values=True) as rec:
        torch.full((30,), math.inf, requires_grad=True).sum().backward()
    text = rec.to_json()
    assert Recording.from_json(text) == rec.recording
    before = text.replace(', "summaries": []', "").replace(', "summary": null', "")
    assert before != text
    assert Recording.from_json(before) == rec.recording


def test_the_program_computes_what_it_computes_alone() -> None:
    def train() -> list[torch.Tensor]:
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(70, 30), torch.nn.Dropout(0.5), torch.nn.Linear(30, 8))
        optimiser = torch.optim.Adam(model.parameters())
        for _ in range(3):
            optimiser.zero_grad()
            loss = model(torch.randn(9, 70)).pow(2).mean()
            loss.backward()
            optimiser.step()
        last = loss.grad_fn
        assert last is not None
        weights = [each.detach().clone() for each in model.parameters()]
        return [*weights, torch.tensor([each._version for each in model.parameters()]), torch.rand(3)]

    def numbers() -> int:
        """How many Nodes autograd has numbered by now."""
        node = (torch.ones(1, requires_grad=True) * 2).grad_fn
        assert node is not None
        return int(node._sequence_nr())  # type: ignore[attr-defined]  # torch gives Nodes no such type

    began = numbers()
    alone = train()
    between = numbers()
    with seegrad.record(values=True):
        watched = train()
    assert numbers() - between == between - began, "no Node more, and none less"
    assert all(torch.equal(a, b) for a, b in zip(alone, watched, strict=True))


def test_inside_vmap_nothing_is_kept() -> None:
    with seegrad.record(values=True) as rec:
        torch.vmap(lambda row: (row * 2).sum())(torch.ones(30, 40))
    assert rec.recording.error is None
