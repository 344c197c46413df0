"""What is still to be seen of the numbers once a NaN or an infinity has shown itself, without a look at each tensor.

A loss that isn't finite is met before its backward: all that its Nodes have saved is there, and most of what they were
given. A gradient that isn't is met at the few Nodes whose slope can be infinite, as it's handed on. A program whose
numbers are finite pays one look at each loss, and one at what such Nodes hand on. A device is never waited for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import torch

from seegrad.capture.extremes import ExtremesDraft, Gradients, looked_at
from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.tables import Tables
from seegrad.capture.tables.nodes import NodeDraft
from seegrad.model.derivatives import may_break

MOST = 3
"""Backward calls that are looked at: what comes later follows from them."""


class Aftermath:
    """Looks back over a graph whose loss isn't finite, and at what steep Nodes hand on."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._found = 0
        self._written: dict[int, int] = {}
        self._broken: int | None = None  # the backward in which a Node made of finite numbers what isn't

    @property
    def is_over(self) -> bool:
        """Enough was seen."""
        return self._found >= MOST

    def begins(self, backward: int, roots: Iterable[int], nodes: Sequence[NodeDraft]) -> bool:
        """A backward is about to run through these Nodes: has what it begins with a number that isn't finite?"""
        begin = [tensor for root in roots if (tensor := self._tables.tensors.alive(root)) is not None]
        if all(map(_is_finite, begin)):
            return False
        self._broken = backward
        self._keep_lap(nodes)
        self._see_writes()
        each = {(draft.tensor, draft.frame): draft for draft in (*self._of_living(), *self._of_graph(nodes))}
        self._tables.extremes += each.values()
        return True

    def steep(self, draft: NodeDraft) -> bool:
        """Is it worth a look at what this Node hands on?"""
        return not self.is_over and may_break(draft.name)

    def handed(self, backward: int, node: int, computed: Gradients, given: Gradients) -> None:
        """A steep Node has computed the gradients of its inputs from those it was given."""
        if self.is_over or all(each is None or _is_finite(each) for each in computed):
            return
        self._see_writes()
        if self._broken != backward:
            self._tables.extremes += self._of_living()
        self._broken = backward
        self._tables.extremes += self._of_graph([self._tables.nodes.drafts[node]])  # it lets go of them only now
        for slot, gradient in [*((None, each) for each in given), *enumerate(computed)]:
            if gradient is not None:
                self._add(ExtremesDraft(self._tables.frames.now, node=node, slot=slot, backward=backward), gradient)

    def ended(self, backward: int, met: Sequence[NodeDraft]) -> None:
        """The backward is over: which leaves has it reached?"""
        if self._broken != backward:
            return
        self._found += 1
        self._keep_lap(met)
        for draft in met:
            leaf = None if draft.leaf is None else self._tables.tensors.alive(draft.leaf)
            if leaf is not None and leaf.grad is not None:
                self._add(ExtremesDraft(self._tables.frames.now, node=draft.id, backward=backward), leaf.grad)

    def _of_graph(self, nodes: Sequence[NodeDraft]) -> Iterator[ExtremesDraft]:
        """The numbers of what these Nodes keep."""
        for node in nodes:
            for each in self._tables.nodes.look_at(node):
                tensor = each.ref()
                if tensor is not None and each.stands(tensor):
                    yield from self._now(each.tensor, tensor)

    def _of_living(self) -> Iterator[ExtremesDraft]:
        """The numbers of all that the program still holds."""
        for number in self._tables.tensors.living():
            tensor = self._tables.tensors.alive(number)
            if tensor is not None:
                yield from self._now(number, tensor)

    def _now(self, number: int, tensor: torch.Tensor) -> Iterator[ExtremesDraft]:
        """Its numbers, which it has had since it was made, or written."""
        known = self._tables.tensors.drafts.get(number)
        if known is not None and known.storage not in self._tables.tensors.uninitialised:
            draft = ExtremesDraft(max(known.frame, self._written.get(known.storage, 0)), number)
            if _torch.is_readable(tensor) and looked_at(draft, tensor):
                yield draft

    def _see_writes(self) -> None:
        """Storage → the Frame that wrote it last."""
        self._written = {}
        for write in self._tables.writes.drafts.values():
            self._written[write.storage] = max(write.frame, self._written.get(write.storage, 0))

    def _add(self, draft: ExtremesDraft, tensor: torch.Tensor) -> None:
        if _torch.is_readable(tensor) and looked_at(draft, tensor):
            self._tables.extremes.append(draft)

    def _keep_lap(self, met: Sequence[NodeDraft]) -> None:
        """The Frames in which these Nodes were made, and those in which they run, aren't forgotten."""
        now = self._tables.frames.now
        self._tables.kept |= {draft.frame for draft in met} | set(range(now, now + len(met) + 2))


def _is_finite(tensor: torch.Tensor) -> bool:
    """False where a number on the CPU isn't; of other devices nobody asks."""
    if not _torch.is_readable(tensor) or not tensor.is_floating_point() or not tensor.numel():
        return True
    if math.isfinite(tensor.detach().sum().item()):
        return True
    return bool(tensor.detach().isfinite().all())  # a sum may be too large where no number is
