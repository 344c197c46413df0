"""Many views of one storage, written in turn: the work of each write doesn't grow with the views."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import seegrad
from seegrad.capture.tables import tensors
from seegrad.capture.tables.frames import preview


def rows(count: int) -> list[torch.Tensor]:
    source, kept = torch.ones(count, 4), []
    for i in range(count):
        view = source[i]
        kept.append(view)
        view.add_(1)
    return kept


def one_behind_the_other(count: int) -> list[torch.Tensor]:
    kept = [torch.ones(4)]
    for _ in range(count):
        kept.append(kept[-1][:])
        kept[-1].add_(1)
    return kept


def made_first(count: int) -> list[torch.Tensor]:
    kept = list(torch.ones(count, 4).unbind())
    for view in kept:
        view.mul_(2)
    return kept


def dropped(count: int) -> list[torch.Tensor]:
    source = torch.ones(4)
    for _ in range(count):
        source.detach()
        source.add_(1)
    return [source]


@pytest.mark.parametrize("program", [rows, one_behind_the_other, made_first, dropped])
def test_the_looks_at_numbers_grow_with_the_program_alone(program: Callable[[int], object], monkeypatch) -> None:
    looks: list[int] = []

    def counted(tensor: torch.Tensor) -> object:
        looks.append(1)
        return preview(tensor)

    monkeypatch.setattr(tensors, "preview", counted)
    found = []
    for count in (200, 400):
        looks.clear()
        with seegrad.record():
            program(count)
        found.append(len(looks))
    assert found[1] < 2.7 * found[0]  # four times, if each write looked at every view; the first 64 are all looked at


def test_of_many_views_those_that_a_write_hit_show_it() -> None:
    with seegrad.record() as rec:
        source = torch.zeros(100, 2)
        views = list(source.unbind())
        pair = source[40:42]
        views[41].add_(5)
    (write,) = rec.recording.writes
    frame = rec.frames[write.frame]
    names = {each.id: each.span for each in rec.recording.tensors}
    shown = {names[number]: values for number, values in frame.values}
    assert shown[41 * 8, 42 * 8] == (("5", "5"),)
    assert shown[40 * 8, 42 * 8] == (("0", "0"), ("5", "5"))
    assert (0, 800) in shown
    assert (0, 8) not in shown
    assert pair[1].tolist() == [5, 5]
