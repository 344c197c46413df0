"""Gradients that a hook or a custom backward wrote in place although others were given the same memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from seegrad.capture.probes import torch_private as _torch


@dataclass(slots=True)
class Sight:
    """A gradient as a Node was given it last."""

    ref: _torch.TensorRef
    version: int | None
    node: int


@dataclass(slots=True)
class Edit:
    """A write to a gradient that was made by a Node's own backward or by a hook on the way to it."""

    storage: int
    ref: _torch.TensorRef
    writer: int
    versions: tuple[int | None, int | None]
    write: int | None = None  # its number, once it's written down


class Gradients:
    """The gradients of one backward, by the address of their memory."""

    def __init__(self) -> None:
        self._seen: dict[int, Sight] = {}
        self._edits: list[Edit] = []

    def give(
        self, node: int, gradients: Sequence[torch.Tensor | None], custom: set[int], leads: Callable[[int, int], bool]
    ) -> list[Edit]:
        """A Node is given these: the writes of others that spoiled them.

        `custom` are the Nodes written in Python; `leads(a, b)`: gradients flow from Node a to b.
        """
        found: list[Edit] = []
        for gradient in gradients:
            key = _torch.storage_key(gradient) if gradient is not None else None
            if gradient is None or key is None:
                continue
            sight, version = self._seen.get(key), _torch.version(gradient)
            if sight is not None and sight.ref() is not None and sight.version != version:
                writer = sight.node if sight.node in custom else node
                self._edits.append(Edit(key, sight.ref, writer, (sight.version, version)))
            self._seen[key] = Sight(_torch.TensorRef(gradient), version, node)
            edits = [edit for edit in self._edits if edit.storage == key and edit.ref() is not None]
            found += [edit for edit in edits if edit.writer != node and not leads(edit.writer, node)]
        return found
