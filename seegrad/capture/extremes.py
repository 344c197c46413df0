"""The smallest and the largest number of each tensor and gradient, where NaN and infinity are to be found.

Both come from one pass over the tensor, and a NaN makes both NaN. On a device they stay there as tensors until the
Recording is asked for, or old Frames are to be forgotten: no call waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.numbers import runs_ahead
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import numeral
from seegrad.capture.tables.nodes import NodeDraft
from seegrad.model.derivatives import factors, may_be_flat
from seegrad.model.recording import STEP

Gradients = Sequence[torch.Tensor | None]


@dataclass(eq=False, slots=True)
class ExtremesDraft:
    """An Extremes, numbered as capture numbers; `waiting` holds both numbers while they are a device's."""

    frame: int
    tensor: int | None = None
    node: int | None = None
    slot: int | None = None
    backward: int | None = None
    low: str = ""
    high: str = ""
    always: bool = False
    waiting: torch.Tensor | None = None

    @property
    def is_finite(self) -> bool:
        """False for a NaN or an infinity."""
        return math.isfinite(float(self.low)) and math.isfinite(float(self.high))


class ExtremesWatch:
    """Looks at each tensor once a version, and at all that a Node is given and hands on."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._seen: dict[int, int | None] = {}  # tensor → version at which it was looked at
        self._laps: dict[int, int] = {}  # backward → the Frame at which it began
        self._settled = 0
        self._trouble: int | None = None  # the first backward in which something wasn't finite

    def before(self, tensors: Sequence[torch.Tensor], numbers: Sequence[int]) -> None:
        """These go into a call that may write them."""
        for tensor, number in zip(tensors, numbers, strict=True):
            if self._seen.get(number, -1) != _torch.version(tensor):
                self._look(tensor, self._tables.frames.now, number)

    def after(self, frame: int, tensors: Iterable[torch.Tensor]) -> None:
        """A call has made or written these."""
        for number, tensor in {self._tables.tensors.find(tensor): tensor for tensor in tensors}.items():
            if number is not None:
                self._look(tensor, frame, number)

    def begin(self, backward: int) -> None:
        """A backward call begins."""
        self._laps[backward] = self._tables.frames.now

    def handed(self, backward: int, node: int, computed: Gradients, given: Gradients) -> None:
        """A Node has computed the gradients of its inputs from those it was given."""
        for slot, gradient in [*((None, each) for each in given), *enumerate(computed)]:
            if gradient is not None:
                draft = ExtremesDraft(self._tables.frames.now, node=node, slot=slot, backward=backward)
                self._keep(draft, gradient)

    def settle(self) -> None:
        """Read what devices still have, and remember the lap in which it began."""
        drafts = self._tables.extremes
        _fetch(drafts[self._settled :])
        for draft in drafts[self._settled :]:
            if self._trouble is None and draft.backward is not None and not draft.is_finite:
                self._trouble = draft.backward
                self._tables.kept |= self._lap_of(draft.backward)
        self._settled = len(drafts)

    def forgotten(self, frames: Iterable[int]) -> None:
        """Only these Frames are left."""
        left = set(frames)
        self._tables.extremes = [draft for draft in self._tables.extremes if draft.frame in left]
        self._settled = len(self._tables.extremes)
        self._seen.clear()
        newest = max(self._laps, default=0)
        self._laps = {backward: frame for backward, frame in self._laps.items() if backward >= newest - 1}

    def _lap_of(self, backward: int) -> set[int]:
        """Its Frames, and those since the backward before."""
        begin = self._laps.get(backward - 1, 0)
        return set(range(begin, self._laps.get(backward + 1, self._tables.frames.now) + 1))

    def _look(self, tensor: torch.Tensor, frame: int, number: int) -> None:
        self._seen[number] = _torch.version(tensor)
        if self._tables.tensors.storage_number(tensor) in self._tables.tensors.uninitialised:
            return  # whatever was in memory
        self._keep(ExtremesDraft(frame, number), tensor)

    def _keep(self, draft: ExtremesDraft, tensor: torch.Tensor) -> None:
        if looked_at(draft, tensor):
            self._tables.extremes.append(draft)


def looked_at(draft: ExtremesDraft, tensor: torch.Tensor) -> bool:
    """True where the tensor has both numbers: they're in the draft now, or on their way from a device."""
    both = _both(tensor)
    if both is None:
        return False
    if both.device.type == "cpu":
        _tell(draft, both.tolist())
    else:
        draft.waiting = both
    return True


def _both(tensor: torch.Tensor) -> torch.Tensor | None:
    """The smallest and the largest number, where they are; None where it has no numbers, or none that compare."""
    if not _torch.has_numbers(tensor) or not tensor.numel():
        return None
    if tensor.device.type != "cpu" and not runs_ahead(tensor):
        return None
    numbers = tensor.detach()
    if numbers.is_complex():
        numbers = torch.view_as_real(numbers.resolve_conj())
    try:
        low, high = torch.aminmax(numbers)
        return torch.stack([low, high]).to(torch.float64 if low.device.type == "cpu" else torch.float32)
    except (RuntimeError, NotImplementedError):  # a dtype without an order, a batch inside vmap
        return None


def _tell(draft: ExtremesDraft, both: Sequence[float]) -> None:
    draft.low, draft.high = (numeral(number) for number in both)


def _fetch(drafts: Iterable[ExtremesDraft]) -> None:
    """Read what is still awaited, all of a device at once: here the host waits."""
    groups: dict[torch.device, list[tuple[ExtremesDraft, torch.Tensor]]] = {}
    for draft in drafts:
        if draft.waiting is not None:
            groups.setdefault(draft.waiting.device, []).append((draft, draft.waiting))
            draft.waiting = None
    with _torch.unseen():
        for group in groups.values():
            values: list[Any] = torch.stack([both for _, both in group]).tolist()
            for (draft, _), both in zip(group, values, strict=True):
                _tell(draft, both)


# -- without a look at each: what is still to be seen once a NaN or an infinity has shown itself
#
# A loss that isn't finite is met before its backward: all that its Nodes have saved is there, and most of what they
# were given. A gradient that isn't is met at the few Nodes whose slope can be infinite, as it's handed on; where the
# program selects among numbers, by a mask, what was left out shows itself in a leaf. A program whose numbers
# are finite pays one look at each loss, and one at what such Nodes hand on. A device is never waited for.

MOST = 3
"""Backward calls that are looked at: what comes later follows from them."""

FURTHEST = 4
"""Leaves that are furthest from the loss, to which most ways lead: of these the smallest is looked at."""


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
        self._see_writes()
        each = {(draft.tensor, draft.frame): draft for draft in (*self._of_living(), *self._of_graph(nodes))}
        self._tables.extremes += each.values()
        self._keep_lap(nodes)
        return True

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

    def selected(self, backward: int, met: Sequence[NodeDraft]) -> None:
        """The backward of a loss that selects numbers is over: has what was left out come to the furthest leaves?"""
        if self.is_over or self._broken == backward:
            return
        furthest = islice((draft.leaf for draft in reversed(met) if draft.leaf is not None), FURTHEST)
        leaves = [leaf for number in furthest if (leaf := self._tables.tensors.alive(number)) is not None]
        gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
        if gradients and not _is_finite(min(gradients, key=torch.Tensor.numel)):
            self._broken = backward
            self._see_writes()
            self._tables.extremes += self._of_living()

    def ended(self, backward: int, met: Sequence[NodeDraft]) -> None:
        """The backward is over: which leaves has it reached?"""
        if self._broken != backward:
            return
        self._found += 1
        for draft in met:
            leaf = None if draft.leaf is None else self._tables.tensors.alive(draft.leaf)
            if leaf is not None and leaf.grad is not None:
                self._add(ExtremesDraft(self._tables.frames.now, node=draft.id, backward=backward), leaf.grad)
        self._keep_lap(met)

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
        """Not forgotten: the Frames in which these Nodes were made, those in which they run, those of numbers seen."""
        now, many = self._tables.frames.now, len(met)
        self._tables.kept |= set(range(now - many, now + many + 2))
        self._tables.kept |= {draft.frame for draft in (*met, *self._tables.extremes)}


def _is_finite(tensor: torch.Tensor) -> bool:
    """False where a number on the CPU isn't; of other devices nobody asks."""
    if not _torch.is_readable(tensor) or not tensor.is_floating_point() or not tensor.numel():
        return True
    if math.isfinite(tensor.detach().sum().item()):
        return True
    return bool(tensor.detach().isfinite().all())  # a sum may be too large where no number is


# -- leaves that get nothing but 0
#
# Each leaf's gradient is looked at after the first backward that reaches it: its first number, and the others only
# where that is 0. In most programs that is all. A leaf that got nothing but 0 is looked at again each time, until it
# gets something, and meanwhile what the Nodes hand on that may be flat, and products of which it is a factor.

PERSISTENT = 10
"""Backward calls after which it is noted."""

CERTAIN = 3
"""After so many where it's a factor of a product whose other one is 0, too: neither ever gets anything."""

NEAREST = 4
"""So many Nodes lie at most between a product and the leaf that is its factor: they shape it."""

SPREAD = 64
"""So many numbers of a large tensor are asked before all."""

MOST_LEAVES = 10_000
"""Leaves that are looked at; later ones are made anew in each step."""


class Stillness:
    """Leaves whose gradient has been 0 from the first, and the Nodes that are given something and hand on 0."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._known: set[int] = set()
        self._still: dict[int, int] = {}  # leaf → backward calls
        self._met: list[NodeDraft] = []
        self._seen: list[ExtremesDraft] = []  # in this backward
        self._factors: set[int] = set()  # leaves of products in this backward whose factors are both 0
        self._noted: list[ExtremesDraft] = []  # of those before

    def begin(self, met: Sequence[tuple[Any, NodeDraft]], watch: Callable[[int], Callable[..., Any]]) -> list[Any]:
        """A backward is about to run through these Nodes: what was registered with them, to be removed behind it."""
        self._met, self._seen = [draft for _, draft in met if draft.leaf is not None], []
        self._factors = set()
        if not any(draft.leaf in self._still for draft in self._met):
            return []
        watched = ((node, draft) for node, draft in met if may_be_flat(draft.name) or self._multiplies(draft))
        return [node.register_hook(watch(draft.id)) for node, draft in watched]

    def _multiplies(self, draft: NodeDraft) -> bool:
        """Is it a product, and one of its factors a leaf that got nothing so far?"""
        slots = factors(draft.name)
        return bool(slots) and any(self._is_still(target) for slot, target, _ in draft.edges if slot in slots)

    def _is_still(self, node: int | None) -> bool:
        """Is there such a leaf behind the Node, and nothing between but what shapes it?"""
        return self._leaf_behind(node) in self._still

    def _leaf_behind(self, node: int | None, *, beside: bool = False) -> int:
        """The leaf that a Node hands on to, with nothing between but what shapes it; -1 where there is none.

        `beside`: or by which one more product scales what other leaves made.
        """
        for _ in range(NEAREST):
            draft = None if node is None else self._tables.nodes.drafts.get(node)
            if draft is None or draft.leaf is not None:
                return -1 if draft is None or draft.leaf is None else draft.leaf
            behind = [target for _, target, _ in draft.edges if target is not None]
            if beside and factors(draft.name):
                return max(map(self._leaf_behind, behind), default=-1)
            node = behind[0] if len(behind) == 1 else None
        return -1

    def handed(self, backward: int, node: int, computed: Gradients, given: Gradients) -> None:
        """A Node has computed the gradients of its inputs from those it was given."""
        slots = factors(self._tables.nodes.drafts[node].name)
        handed = [computed[slot] for slot in slots if slot < len(computed)] if slots else computed
        if all(map(_is_zero, handed)) and not all(map(_is_zero, given)):
            edges = [target for slot, target, _ in self._tables.nodes.drafts[node].edges if slot in slots]
            behind = {self._leaf_behind(target, beside=True) for target in edges if target is not None}
            self._factors |= behind if len(behind) == 2 else set()
            for slot, gradient in [*((None, each) for each in given), *enumerate(computed)]:
                draft = ExtremesDraft(self._tables.frames.now, node=node, slot=slot, backward=backward)
                if gradient is not None and looked_at(draft, gradient):
                    self._seen.append(draft)

    def ended(self, backward: int) -> None:
        """It is over: which leaves has it given something?"""
        still, fresh = list[ExtremesDraft](), set[int]()
        for draft in self._met:
            number = draft.leaf
            if number is None or (number in self._known and number not in self._still):
                continue
            leaf = self._tables.tensors.alive(number)
            if leaf is None or leaf.grad is None or len(self._known) >= MOST_LEAVES:
                continue
            self._known.add(number)
            self._still[number] = self._still.get(number, 0) + 1
            if not _is_zero(leaf.grad):
                del self._still[number]
            elif self._still[number] == 1:
                fresh.add(number)
            elif self._still[number] >= (CERTAIN if number in self._factors else PERSISTENT):
                now = self._tables.frames.now
                still.append(ExtremesDraft(now, node=draft.id, backward=backward, low="0", high="0", always=True))
        self._met = []
        self._keep_beginnings(fresh)
        if still and (self._seen or all(each.always for each in self._noted)):
            before = set(map(id, self._noted))
            self._noted = [*self._seen, *still]
            self._tables.extremes = [each for each in self._tables.extremes if id(each) not in before] + self._noted

    def _keep_beginnings(self, leaves: set[int]) -> None:
        """Not forgotten: the Frames that made these leaves' bytes, and those that wrote them last, but for steps."""
        drafts = self._tables.tensors.drafts
        storages = {drafts[leaf].storage for leaf in leaves if leaf in drafts}
        if storages:
            writes = self._tables.writes.drafts.values()
            last = {each.storage: each.frame for each in writes if each.storage in storages and each.op != STEP}
            made: dict[int, int] = {}
            for each in drafts.values():
                if each.storage in storages:
                    made[each.storage] = min(each.frame, made.get(each.storage, each.frame))
            self._tables.kept |= {*last.values(), *made.values()}


def _is_zero(tensor: torch.Tensor | None) -> bool:
    """Nothing but 0, as far as the CPU knows; an empty tensor, too. Most show at their first number that it isn't.

    Where a unit is dead, so is a row, maybe the first: of a large tensor some numbers all over it are asked before all.
    """
    if tensor is None:
        return True
    if not _torch.is_readable(tensor) or tensor.layout is not torch.strided or tensor.is_complex():
        return False
    numbers = tensor.detach()
    if not numbers.numel():
        return True
    if numbers[(0,) * numbers.dim()].item():
        return False
    if numbers.numel() > SPREAD**2 and numbers.is_contiguous():
        every = numbers.numel() // SPREAD | 1  # odd: of a matrix it takes more than one column
        if numbers.view(-1)[::every].any().item():
            return False
    return not numbers.any().item()
