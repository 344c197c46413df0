"""Gradients on their way through a backward: what hooks made of them, and who wrote one that others were given too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import is_shown, preview
from seegrad.capture.tables.hooks import Called, HookDraft
from seegrad.capture.tables.nodes import NodeDraft
from seegrad.capture.tables.tensors import Source


@dataclass(slots=True)
class Sight:
    """A gradient as a Node was given it last."""

    ref: _torch.WeakTensor
    version: int | None
    node: int


@dataclass(slots=True)
class Edit:
    """A write to a gradient that was made by a Node's own backward or by a hook on the way to it."""

    storage: int
    ref: _torch.WeakTensor
    writer: int
    versions: tuple[int | None, int | None]
    write: int | None = None  # its number, once it's written down


class Edits:
    """Gradients that a hook or a custom backward wrote in place although others were given the same memory."""

    def __init__(self) -> None:
        self._seen: dict[int, Sight] = {}  # by the address of their memory
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
            self._seen[key] = Sight(_torch.WeakTensor(gradient), version, node)
            edits = [edit for edit in self._edits if edit.storage == key and edit.ref() is not None]
            found += [edit for edit in edits if edit.writer != node and not leads(edit.writer, node)]
        return found


Gradient = torch.Tensor | None


class Arrivals:
    """What the hooks on gradients were given, and what they made of it, without standing between them and torch.

    A hook is given the sum of what the Nodes behind its tensor hand back: that sum is kept here, for gradients that are
    small enough to be shown. What the hook made of it is what its Node then starts with. Of several hooks on one
    tensor, the first is known to have seen the sum, and the last to have given the result.
    """

    def __init__(self, tables: Tables) -> None:
        self._hooks: dict[Source, list[HookDraft]] = {}  # by the Node and output whose gradient they are given
        self._sums: dict[Source, torch.Tensor] = {}
        for hook in tables.hooks.on_tensors():
            at = hook.at or tables.nodes.accumulator(hook.tensor)
            if at is not None:
                self._hooks.setdefault(at, []).append(hook)
        self.nodes = {node for node, _ in self._hooks}  # whose gradients a hook is given

    def fed_by(self, node: NodeDraft) -> bool:
        """True for a Node that hands back a gradient which a hook is given."""
        if not self._hooks:
            return False
        return any((target, output) in self._hooks for _, target, output in node.edges if target is not None)

    def begin(self, source: Source | None, root: torch.Tensor, gradient: Gradient) -> None:
        """Backward starts at `root` with a gradient, of ones where none was given."""
        if source in self._hooks:
            self._add(source, torch.ones_like(root) if gradient is None else gradient)

    def hand_back(self, node: NodeDraft, gradients: Sequence[Gradient]) -> None:
        """A Node has finished: what it gives to each of its Edges."""
        for (_, target, output), gradient in zip(node.edges, gradients, strict=False):
            if target is not None and gradient is not None and (target, output) in self._hooks:
                self._add((target, output), gradient)

    def _add(self, source: Source, gradient: torch.Tensor) -> None:
        if is_shown(gradient):
            with torch.no_grad():
                before = self._sums.get(source)
                self._sums[source] = gradient.detach().clone() if before is None else before + gradient

    def start(self, node: NodeDraft, frame: int, gradients: Sequence[Gradient], leaf: torch.Tensor | None) -> None:
        """A Node starts: the hooks on its gradients have run."""
        if node.id not in self.nodes:
            return
        for output, gradient in enumerate(gradients):
            source = node.id, output
            given = self._sums.pop(source, None)
            self._note(self._of(source, "tensor"), frame, given, gradient)
            if self._of(source, "accumulated") and leaf is not None and gradient is not None:
                with torch.no_grad():
                    self._sums[source] = gradient.detach().clone() if leaf.grad is None else leaf.grad + gradient

    def end(self, node: NodeDraft, frame: int, leaf: torch.Tensor) -> None:
        """The sum is in `.grad`, and the hooks that follow have run."""
        source = node.id, 0
        if self._of(source, "accumulated"):
            self._note(self._of(source, "accumulated"), frame, self._sums.pop(source, None), leaf.grad)

    def _of(self, source: Source, kind: str) -> list[HookDraft]:
        return [hook for hook in self._hooks.get(source, ()) if hook.kind == kind]

    def _note(self, hooks: Sequence[HookDraft], frame: int, given: Gradient, left: Gradient) -> None:
        saw, gave = (None if each is None else preview(each) for each in (given, left))
        for hook in hooks:
            hook.called.append(Called(frame, saw, gave, hook is hooks[0], hook is hooks[-1]))
