"""A hook's line is told only where it's known to write the tensor: the closure says what each variable is."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
import torch

from seegrad import record
from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source
from seegrad.capture.unseen import Writer, writing_line
from seegrad.diagnose import diagnose

W, OTHER = torch.ones(2), torch.ones(2)
HELD = {"inside": [torch.optim.SGD([W], lr=0.1)], "outside": [OTHER]}


def line_of(function: Callable[..., Any], *, given: bool = False, guess: bool = False) -> str | None:
    """The text of the line that's said to have written W."""
    assert isinstance(function, FunctionType)
    found = writing_line([(Writer(weakref.ref(function), "leaf"), given)], Source(), _torch.storage_key(W), guess=guess)
    return None if found is None else found[0].code


def test_a_line_that_writes_something_else_is_passed_over() -> None:
    count = torch.zeros(2)

    def hook(p: torch.Tensor) -> None:
        count[0] += 1
        OTHER.mul_(2)
        p.add_(1)

    assert line_of(hook, given=True) == "p.add_(1)"
    assert line_of(hook) is None


def test_a_line_that_surely_writes_it_comes_before_one_that_may() -> None:
    view = W.view(2)

    def hook(p: torch.Tensor) -> None:
        scratch = p * 2
        scratch.clamp_(0)
        HELD["outside"][0].zero_()
        view.zero_()

    assert line_of(hook) == "view.zero_()"


def test_what_a_collection_or_an_optimiser_holds_is_looked_at() -> None:
    def hook(p: torch.Tensor) -> None:
        p.mul_(2)
        HELD["inside"][0].step()

    assert line_of(hook) == 'HELD["inside"][0].step()'


def test_of_two_lines_that_may_have_written_it_none_is_told_but_as_a_guess() -> None:
    def hook(p: torch.Tensor) -> None:
        first, second = p.data, p.detach()
        first.mul_(2)
        second.mul_(3)

    assert line_of(hook) is None
    assert line_of(hook, guess=True) == "first.mul_(2)"


def test_a_variable_that_is_deleted_may_have_been_anything() -> None:
    def made() -> tuple[Callable[..., Any], Callable[[], None]]:
        kept = OTHER

        def hook() -> None:
            kept.mul_(2)

        def forget() -> None:
            nonlocal kept
            del kept

        return hook, forget

    hook, forget = made()
    assert line_of(hook) is None
    forget()
    assert line_of(hook) == "kept.mul_(2)"  # the only line there is


def test_a_write_whose_line_is_unknown_is_told_without_one() -> None:
    w = torch.ones(3, requires_grad=True)

    def hook(_: torch.Tensor) -> None:
        first, second = w.detach(), torch.ones(3)
        first.mul_(2)
        second.mul_(3)

    with record() as recording:
        y = w * w
        y.register_hook(hook)
        with pytest.raises(RuntimeError):
            y.sum().backward()
    (found,) = diagnose(recording.recording)
    assert (found.kind, found.culprit, found.tensor) == ("saved_tensor_modified", None, "w")
