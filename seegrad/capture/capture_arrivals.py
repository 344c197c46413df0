"""What a hook on a gradient was given, and what it made of it, without standing between the hook and torch.

A hook is given the sum of what the Nodes behind its tensor hand back: that sum is kept here, for gradients that are
small enough to be shown. What the hook made of it is what its Node then starts with. Of several hooks on one tensor,
the first is known to have seen the sum, and the last to have given the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from seegrad.capture.probes.previews import preview
from seegrad.capture.tables.hooks import HookDraft
from seegrad.model.recording import HookCall

if TYPE_CHECKING:
    from seegrad.capture.tables.nodes import NodeDraft, Nodes, Source

Gradient = torch.Tensor | None


class Arrivals:
    """The hooked tensors of one backward call, by the Node and output that their gradients are given to."""

    def __init__(self, hooks: Sequence[HookDraft], nodes: Nodes) -> None:
        self._hooks: dict[Source, list[HookDraft]] = {}
        self._sums: dict[Source, torch.Tensor] = {}
        for hook in hooks:
            at = hook.at or nodes.accumulator(hook.tensor)
            if at is not None and hook.kind != "retain" and hook.is_on:
                self._hooks.setdefault(at, []).append(hook)
        self._nodes = {node for node, _ in self._hooks}

    def concern(self, node: NodeDraft) -> bool:
        """True for a Node whose gradient a hook is given."""
        return node.id in self._nodes

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
        if preview(gradient) is not None:
            with torch.no_grad():
                before = self._sums.get(source)
                self._sums[source] = gradient.detach().clone() if before is None else before + gradient

    def start(self, node: NodeDraft, frame: int, gradients: Sequence[Gradient], leaf: torch.Tensor | None) -> None:
        """A Node starts: the hooks on its gradients have run."""
        if node.id not in self._nodes:
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
        alone = len(hooks) == 1 or saw == gave
        for hook in hooks:
            first, last = alone or hook is hooks[0], alone or hook is hooks[-1]
            changed = gave if last and gave != saw else None
            hook.calls.append(HookCall(frame, saw if first else None, changed, alone))
