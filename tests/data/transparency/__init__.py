"""Whole programs that are run plain and recorded; everything that can be seen from outside must be the same.

A program may say what else is to be compared: `watch` follows when an object dies, `mark` puts a word between
the deaths, `block()` is one more `record()` where the run is recorded and nothing where it isn't.
All programs make their tensors on the default device, so the same corpus runs on a GPU.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

Whole = Callable[[], Any]

_WHOLES: dict[str, Whole] = {}


def whole(run: Whole) -> Whole:
    """Register a program."""
    _WHOLES[run.__name__] = run
    return run


def wholes() -> dict[str, Whole]:
    """All of them."""
    from tests.data.transparency import (  # noqa: F401  # importing registers
        data,
        differentiation,
        functions,
        hooks,
        lifetimes,
        modes,
        modules,
        python,
        threads,
        training,
    )

    return _WHOLES


class Stage:
    """What a running program says to the one who looks on."""

    def __init__(self, block: Callable[[], AbstractContextManager[Any]]) -> None:
        self.events: list[str] = []
        self.block = block
        self._refs: list[Any] = []

    def watch(self, label: str, item: Any) -> None:
        """Say `label` in `events` when the object dies; a Node carries something that dies with it."""
        if isinstance(item, torch.autograd.graph.Node):
            item.metadata[label] = carried = _Carried()
            item = carried
        self._refs.append(weakref.ref(item, lambda _: self.events.append(f"{label} died")))


class _Carried:
    """Something in a Node's metadata: it lives as long as the C++ Node, whoever looks at it from Python."""


STAGE = [Stage(nullcontext)]
"""The running program's; a list, so that threads see the same one."""


def watch(label: str, item: Any) -> None:
    """Follow when an object dies."""
    STAGE[-1].watch(label, item)


def mark(word: str) -> None:
    """Say where the program is, between the deaths."""
    STAGE[-1].events.append(word)


def block() -> AbstractContextManager[Any]:
    """One more `record()`, in a recorded run."""
    return STAGE[-1].block()
