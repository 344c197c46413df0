"""Reading a backward or grad call: where it starts, what it was asked for, what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from seegrad.capture.calls import tensors_in
from seegrad.capture.probes import torch_private as _torch

GIVEN = {"backward": 1, "grad": 2}
"""Position of the gradients to start with."""

RETAIN = {"backward": 2, "grad": 3}
"""Position of `retain_graph` among the arguments; `create_graph` follows it."""


def roots_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that backward starts from, whichever way it was called."""
    return tensors_in(args[0] if args else kwargs.get("tensors", kwargs.get("outputs", kwargs.get("self"))))


def wanted_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors whose gradients were asked for by name, empty for all leaves."""
    return tensors_in(kwargs.get("inputs", args[1] if name == "grad" and len(args) > 1 else None))


def given_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], roots: int) -> list[Any]:
    """The gradient that each root starts with, None for ones.

    >>> given_of("backward", ("loss",), {}, 1), given_of("grad", ("y", "x", ["v"]), {}, 1)
    ([None], ['v'])
    """
    position = GIVEN[name]
    named = (kwargs.get(word) for word in ("gradient", "grad_tensors", "grad_outputs"))
    given = args[position] if len(args) > position else next((each for each in named if each is not None), None)
    each = list(given) if isinstance(given, list | tuple) else [given]
    return each if len(each) == roots else [None] * roots


def keeps_graph(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True when the call leaves the saved tensors where they are.

    >>> keeps_graph("backward", (None, None, True), {}), keeps_graph("grad", (), {"create_graph": True})
    (True, True)
    """
    retain = _options(name, args, kwargs).get("retain_graph")
    return creates_graph(name, args, kwargs) if retain is None else bool(retain)


def creates_graph(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True when the gradients get a graph of their own.

    >>> creates_graph("backward", (None, None, True), {}), creates_graph("grad", (), {"create_graph": True})
    (False, True)
    """
    return bool(_options(name, args, kwargs).get("create_graph"))


def _options(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(("retain_graph", "create_graph"), args[RETAIN[name] :], strict=False)) | kwargs


def grad_fns(tensors: Sequence[torch.Tensor]) -> list[Any]:
    """The Nodes that made the tensors, without the leaves."""
    return [node for tensor in tensors if (node := _torch.grad_fn(tensor)) is not None]
