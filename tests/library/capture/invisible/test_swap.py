"""`torch.utils.swap_tensors` refuses tensors that somebody refers to weakly: the recorder does, and mustn't count."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import swap_tensors

import seegrad


@pytest.fixture(autouse=True)
def own_errors_are_raised(monkeypatch):
    monkeypatch.setenv("SEEGRAD_RAISE_OWN_ERRORS", "1")


@contextmanager
def swapping() -> Iterator[None]:
    """Modules swap their parameters instead of writing `.data`."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        yield
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def swapped() -> tuple[Any, ...]:
    a, b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(2))
    (a.sum() * b.sum()).backward()
    swap_tensors(a, b)
    torch.utils.swap_tensors(a, b)
    swap_tensors(a, b)
    (a.sum() * b.exp().sum()).backward()
    return a.tolist(), b.tolist(), a.grad.tolist(), b.grad.tolist()


def converted() -> list[Any]:
    with swapping():
        layer = nn.Linear(2, 2)
        nn.init.ones_(layer.weight)
        layer(torch.ones(1, 2)).sum().backward()
        layer.to(torch.float64)
        layer.load_state_dict(nn.Linear(2, 2).double().state_dict() | {"weight": torch.full((2, 2), 3.0)})
        layer(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
    return [layer.weight.tolist(), layer.weight.grad.tolist(), layer.weight.dtype]


def test_swapping_goes_as_it_goes_alone() -> None:
    alone = swapped(), converted()
    with seegrad.record() as rec:
        recorded = swapped(), converted()
        with seegrad.record():
            assert (swapped(), converted()) == alone
    assert recorded == alone
    assert rec.diagnoses == ()


def test_a_swap_after_the_block_or_in_another_thread() -> None:
    a, b = torch.ones(2), torch.zeros(2)
    found: list[Any] = []
    with seegrad.record() as rec:
        (a * b).sum()
        thread = threading.Thread(target=lambda: found.append(swapped()))
        thread.start()
        thread.join()
        thread = threading.Thread(target=swap_tensors, args=(a, b))
        thread.start()
        thread.join()
    assert found == [swapped()]
    assert (a.tolist(), b.tolist()) == ([0, 0], [1, 1])
    assert weakref.getweakrefs(a) == []
    swap_tensors(a, b)
    assert a.tolist() == [1, 1]
    assert rec.frames


def test_a_reference_of_the_user_s_own_still_refuses() -> None:
    a, b = torch.ones(2), torch.zeros(2)
    kept = weakref.ref(b)
    with seegrad.record():
        a * b
        with pytest.raises(RuntimeError, match="Cannot swap t2 because it has weakref"):
            swap_tensors(a, b)
    assert kept() is b


def test_what_was_swapped_is_met_anew() -> None:
    rec = seegrad.record()
    a, b = torch.ones(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"), rec:  # noqa: PT012  # the whole block
        a * b
        gc.collect()
        swap_tensors(a, b)
        result = (a * 2).exp()
        result += 1
        result.sum().backward()
    assert rec.diagnoses[0].kind == "saved_tensor_modified"
    assert rec.diagnoses[0].tensor == "result"


def test_nothing_of_torch_stays_exchanged() -> None:
    first, second = seegrad.record(), seegrad.record()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    a, b = torch.ones(2), torch.zeros(2)
    a * b
    swap_tensors(a, b)
    second.__exit__(None, None, None)
    assert torch.utils.weakref is weakref
