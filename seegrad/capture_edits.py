"""Gradients that a hook or a custom backward wrote in place although others were given the same memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch

from . import _torch
from .invented import STEP
from .model import Place
from .places import Source, is_users

WRITES = re.compile(r"\.([a-z]\w*_|step)\(|(?<![<>=!])(\*\*|//|[-+*/%&|^])=(?!=)|(\])\s*=(?!=)")
"""What a line looks like that writes in place: `g.mul_(2)`, `g *= 2`, `g[0] = 2`, `optimiser.step()`."""

OPS = {
    **{"+": "add_", "-": "sub_", "*": "mul_", "/": "div_", "//": "floor_divide_", "%": "remainder_", "**": "pow_"},
    **{"&": "bitwise_and_", "|": "bitwise_or_", "^": "bitwise_xor_", "]": "__setitem__", "step": STEP},
}
"""A sign of writing → the op that does it; a method in place is its own."""


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


def codes_of(node: Any, tensor: torch.Tensor | None) -> Iterator[CodeType]:
    """What the user's code may run for a Node: its own backward, and the hooks on the tensor whose gradient it gets."""
    function = getattr(getattr(node, "_forward_cls", None), "backward", None)
    kinds = ("_backward_hooks", "_post_accumulate_grad_hooks") if tensor is not None else ()
    hooks = [hook for kind in kinds for hook in (getattr(tensor, kind, None) or {}).values()]
    for each in (function, *hooks):
        code = getattr(each, "__code__", None)
        if isinstance(code, CodeType):
            yield code


def writing_line(codes: Sequence[CodeType], source: Source) -> tuple[Place, str] | None:
    """The first line in the user's code that looks like a write in place, and the op."""
    for code in codes:
        for number in sorted({line for _, _, line in code.co_lines() if line}):
            text = source.line(code.co_filename, number)
            found = WRITES.search(text)
            if found and is_users(code.co_filename):
                sign = str(found[found.lastindex or 1])
                return Place(source.shown(code.co_filename), number, text), OPS.get(sign, sign)
    return None
