"""The tensors that were seen: numbered, named, and known again by address and weak reference, never by `id()`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.tables.frames import PLAIN, FrameDraft, Numbers, preview
from seegrad.capture.tables.spans import Spans
from seegrad.model.recording import Route

Source = tuple[int, int]
"""(Node, output number): who made a tensor."""

FEW = 64
"""So many tensors on one storage show each write to it, hit or not."""

deref = weakref.ref.__call__
"""The tensor behind a weak reference, for a look that doesn't take hold of it."""


@lru_cache
def spelled(kind: torch.dtype | torch.device) -> str:
    """A dtype or a device as the model has it.

    >>> spelled(torch.float32), spelled(torch.device("cpu"))
    ('float32', 'cpu')
    """
    return str(kind).removeprefix("torch.")


@dataclass(eq=False)
class TensorDraft:
    """A TensorRef in the making: what torch told, put into the model's words when they're asked for."""

    id: int
    shape: tuple[int, ...]
    kind: torch.dtype
    on: torch.device
    is_leaf: bool
    requires_grad: bool
    storage: int
    counter: int | None
    span: tuple[int, int]
    frame: int
    ref: _torch.WeakTensor
    name: str | None = field(default=None, init=False)
    alias_of: int | None = field(default=None, init=False)
    route: Route = field(default="self", init=False)
    parameter: bool = field(default=False, init=False)
    settled: int | None = field(default=0, init=False)  # when torch knew who made it: see `Tensors.is_settled`
    source: Source | None = field(default=None, init=False)  # who made it, where that Node was met

    def may_be_late(self, version: int | None) -> bool:
        """True for what may have got a Node since it was seen: by an unseen write, or as a custom Function's result."""
        if self.settled != version:
            return True
        return self.source is None and (self.is_leaf != self.requires_grad or self.alias_of is not None)

    @property
    def dtype(self) -> str:
        """Its dtype as the model has it."""
        return spelled(self.kind)

    @property
    def device(self) -> str:
        """Its device as the model has it."""
        return spelled(self.on)


Features = tuple[int, int | None, bool, torch.dtype, torch.device, tuple[int, ...], tuple[int, int]]
"""A tensor's address, version, whether it requires grad, dtype, device, shape, and the bytes it may touch."""


def features(tensor: torch.Tensor) -> Features:
    """What a tensor is, read together where it's a plain one."""
    if type(tensor) in PLAIN:
        try:
            key, version, graph, kind, on, shape, size, nested = _torch.features(tensor)
            if size and not nested and type(size) is int:
                start = int(tensor.storage_offset()) * kind.itemsize
                if tensor.is_contiguous():
                    return key, version, graph, kind, on, tuple(shape), (start, start + size)
                reach = sum([(side - 1) * step for side, step in zip(shape, tensor.stride(), strict=True)]) + 1
                return key, version, graph, kind, on, tuple(shape), (start, start + reach * kind.itemsize)
        except (RuntimeError, NotImplementedError):  # no version, or a layout without a storage
            pass
    shape, span, version = _torch.shape(tensor), _torch.span(tensor), _torch.version(tensor)
    return _torch.address(tensor), version, tensor.requires_grad, tensor.dtype, tensor.device, shape, span


FRESH_BYTES = 64 * 2**20
"""So much memory may be met anew before the storages that are gone are let go of."""

HELD_BYTES = 4096
"""So much more for each storage that is held: what it costs to ask it stays small beside filling the memory."""


class StorageNumbers:
    """Numbers of storages by their addresses, each held weakly: that keeps an address from being used again.

    There's no object for each: Python's collector would look at all of them. What torch keeps for a weak reference is
    small, but it lies between large blocks, and the C library then can't use their place again: so those that are gone
    are let go of after so much memory, not only after so many ops.
    """

    def __init__(self) -> None:
        self.count = 0
        self._numbers: dict[int, int] = {}
        self._fresh_bytes = 0

    def number(self, storage: torch.UntypedStorage | None) -> int:
        """The storage's number; a layout without one (None) gets a new one each time."""
        if storage is not None and (known := self._numbers.get(_torch.address(storage))) is not None:
            return known
        number, self.count = self.count, self.count + 1
        if storage is not None:
            self._numbers[_torch.weak_address(storage)] = number
            try:
                size = storage.nbytes()
                self._fresh_bytes += size if type(size) is int else 0
            except RuntimeError:  # symbolic shapes
                pass
            if self._fresh_bytes > FRESH_BYTES and self._fresh_bytes > FRESH_BYTES + HELD_BYTES * len(self._numbers):
                self.forget_dead()
        return number

    @property
    def held(self) -> int:
        """How many are held."""
        return len(self._numbers)

    def forget_dead(self) -> set[int]:
        """Let go of the storages that are gone; the numbers of the others."""
        self._fresh_bytes = 0
        for weak in [weak for weak in self._numbers if _torch.is_gone(weak)]:
            _torch.let_go(weak)
            del self._numbers[weak]
        return set(self._numbers.values())

    def __del__(self, free: Callable[[int], None] = _torch.let_go) -> None:
        for weak in self._numbers:
            free(weak)  # bound above: the module's own names may be gone when Python ends


class Tensors:
    """All tensors of one Recording that weren't forgotten."""

    def __init__(self) -> None:
        self.drafts: dict[int, TensorDraft] = {}
        self._next = 0
        self._known: dict[int, TensorDraft] = {}  # by address
        self._storages = StorageNumbers()
        self._alone: dict[int, int] = {}  # storage → the one tensor that was seen there
        self._on_storage: dict[int, list[int]] = {}  # of storages on which several were seen
        self._living_on: dict[int, list[int]] = {}  # the same, less those found gone: a loop leaves thousands
        self._spans: dict[int, Spans] = {}  # of storages on which many lie
        self._unplaced: list[tuple[int, int]] = []  # storage, tensor: in none of the four yet
        self._foreseen: dict[int, tuple[_torch.WeakTensor, str, bool]] = {}
        self._counter_count = 0
        self.uninitialised: set[int] = set()  # storages that hold whatever was in memory
        self.applied = False  # a custom Function has just returned: what isn't known is what it made

    # -- who is it

    def draft(self, tensor: torch.Tensor) -> TensorDraft | None:
        """What is known of it, None when it was never seen."""
        draft = self._known.get(_torch.address(tensor))
        return draft if draft is not None and deref(draft.ref) is tensor else None

    def find(self, tensor: torch.Tensor) -> int | None:
        """Its number, None when it was never seen."""
        draft = self.draft(tensor)
        return None if draft is None else draft.id

    def alive(self, number: int) -> torch.Tensor | None:
        """The tensor of that number, None when the program has dropped it."""
        draft = self.drafts.get(number)
        return draft.ref() if draft is not None else None

    def foresee(self, tensor: torch.Tensor, name: str, *, existed: bool = False) -> None:
        """Remember the name of a tensor that may be met later; `existed`: it was there before the block ran."""
        draft = self.draft(tensor)
        if draft is None:
            if self._foreseen_as(tensor) is None:
                self._foreseen[_torch.address(tensor)] = (_torch.WeakTensor(tensor), name, existed)
        elif draft.name is None or (draft.parameter and "." in name and "." not in draft.name):
            draft.name = name  # a loop's `p` says less of a Parameter than its path does

    def existed_at_start(self, tensor: torch.Tensor) -> bool:
        """True when a variable held it before the block ran."""
        entry = self._foreseen_as(tensor)
        return entry is not None and entry[1]

    def is_new(self, tensor: torch.Tensor) -> bool:
        """True for a tensor that was neither met nor seen in a variable."""
        return self.draft(tensor) is None and self._foreseen_as(tensor) is None

    def _foreseen_as(self, tensor: torch.Tensor) -> tuple[str, bool] | None:
        entry = self._foreseen.get(_torch.address(tensor))
        return entry[1:] if entry is not None and deref(entry[0]) is tensor else None

    def storage_number(self, tensor: torch.Tensor) -> int:
        """Its storage's number. A layout without a storage gets a number of its own."""
        return self._storages.number(_torch.storage(tensor))

    def sharing(self, tensor: torch.Tensor) -> TensorDraft | None:
        """The tensor itself, or one that was seen on its storage and lives; None where nobody uses that storage."""
        draft = self.draft(tensor)
        if draft is not None:
            return draft
        numbers = self._seen_on(self.storage_number(tensor))
        return next((self.drafts[number] for number in numbers if self._lives(number)), None)

    def on_storage(self, storage: int) -> list[int]:
        """Numbers of the tensors on a storage that still live."""
        self._place()
        seen = self._living_on[storage] if storage in self._living_on else self._seen_on(storage)
        living = [number for number in seen if self.alive(number) is not None]
        if storage in self._on_storage:
            self._living_on[storage] = living
        return living.copy()

    def _seen_on(self, storage: int) -> Sequence[int]:
        """Numbers of all that were seen on a storage."""
        self._place()
        several = self._on_storage.get(storage)
        if several is not None:
            return several
        return (self._alone[storage],) if storage in self._alone else ()

    def hit(self, storage: int, span: tuple[int, int]) -> list[int]:
        """The living tensors that show a write to these bytes: all on the storage, of many only `FEW` that overlap."""
        self._place()
        if storage not in self._spans:
            numbers = self.on_storage(storage)
            if len(numbers) <= FEW:
                return numbers
            self._spans[storage] = Spans((number, self.drafts[number].span) for number in numbers)
        return sorted(islice(self._spans[storage].hit(span, self._lives), FEW))

    def _lives(self, number: int) -> bool:
        return self.alive(number) is not None

    def results_beside(self, tensor: torch.Tensor) -> list[int]:
        """Numbers of results that were seen on the tensor's storage, gone or not."""
        before, storage = self._storages.count, self.storage_number(tensor)
        if self._storages.count != before:  # it is seen for the first time
            return []
        drafts = map(self.drafts.get, self._seen_on(storage))
        return [each.id for each in drafts if each is not None and each.requires_grad and not each.is_leaf]

    # -- what torch may be asked
    #
    # Once the base of a view was written, torch makes the view's grad_fn anew, at the moment when somebody first asks
    # for it: an op, `grad_fn`, `is_leaf`. That Node's number, and with it the order in which backward adds gradients,
    # is of that moment. So nothing is asked that torch would have to make first.

    def is_settled(self, tensor: torch.Tensor) -> bool:
        """True where torch knows who made the tensor: it's no view, or its base wasn't written since it knew."""
        if not _torch.is_view(tensor):
            return True
        draft = self.draft(tensor)
        if draft is None and self.applied:
            return True
        return _torch.version(tensor) == (0 if draft is None else draft.settled)

    def is_leaf(self, tensor: torch.Tensor) -> bool:
        """`tensor.is_leaf`; as it was, or as is likely, where torch would have to make its grad_fn first."""
        if not tensor.requires_grad or self.is_settled(tensor):
            return _torch.is_leaf(tensor)
        draft = self.draft(tensor)
        return draft is not None and draft.requires_grad and draft.is_leaf

    def grad_fn(self, tensor: torch.Tensor) -> Any | None:
        """`tensor.grad_fn`, None where torch would have to make it first."""
        return _torch.grad_fn(tensor) if tensor.requires_grad and self.is_settled(tensor) else None

    def settle(self, tensor: torch.Tensor) -> None:
        """Torch has just had to know who made the tensor."""
        draft = self.draft(tensor)
        if draft is not None:
            draft.settled = _torch.version(tensor)

    # -- see it

    def see(self, tensor: torch.Tensor, frame: int, sources: Sequence[int] = (), route: Route = "view") -> int:
        """Its number; a tensor met for the first time is described. `sources` are the tensors it may alias."""
        draft = self.draft(tensor)
        if draft is None:
            return self.describe(tensor, frame, sources, route).id
        graph = draft.requires_grad = tensor.requires_grad
        draft.is_leaf = not graph or (self.is_leaf(tensor) if _torch.is_view(tensor) else tensor.is_leaf)
        return draft.id

    def made(self, tensor: torch.Tensor, frame: int) -> int:
        """The number of what an op has just made or written: torch knows by whom."""
        draft = self.draft(tensor)
        if draft is None:
            return self.describe(tensor, frame, made=True).id
        draft.settled, graph = _torch.version(tensor), tensor.requires_grad
        draft.requires_grad, draft.is_leaf = graph, not graph or _torch.is_leaf(tensor)
        return draft.id

    def describe(
        self,
        tensor: torch.Tensor,
        frame: int,
        sources: Sequence[int] = (),
        route: Route = "view",
        *,
        made: bool = False,
    ) -> TensorDraft:
        """Describe a tensor that is met for the first time; `made`: by an op, just now."""
        base = _torch.base(tensor)
        if base is not None:  # which is nobody's view: of a view of a view, torch names the tensor at the bottom
            sources = (*sources, self.see(base, frame))
        storages = self._storages
        before, storage = storages.count, storages.number(_torch.storage(tensor))
        source = self._aliased(storage, sources) if sources and storages.count == before else None
        key, version, graph, kind, on, shape, span = features(tensor)
        leaf = not graph or ((made or base is None or version == 0 or self.applied) and _torch.is_leaf(tensor))
        if version is None:
            counter = None
        elif source is not None and route != "data":
            counter = source.counter
        else:
            counter, self._counter_count = self._counter_count, self._counter_count + 1
        number, foreseen = self._next, self._foreseen.get(key)
        if foreseen is not None and deref(foreseen[0]) is not tensor:
            foreseen = None
        ref = _torch.WeakTensor(tensor) if foreseen is None else foreseen[0]
        draft = TensorDraft(number, shape, kind, on, leaf, graph, storage, counter, span, frame, ref)
        if foreseen is not None:
            draft.name = foreseen[1]
        if source is not None:
            draft.alias_of, draft.route = source.id, route
        if type(tensor) is not torch.Tensor and issubclass(type(tensor), torch.nn.Parameter):
            draft.parameter = True
        if made and version:
            draft.settled = version
        gone = self._known.get(key)
        if gone is not None:
            gone.ref = _torch.GONE
        self.drafts[number] = self._known[key] = draft
        self._next = number + 1
        self._unplaced.append((storage, number))
        return draft

    def _aliased(self, storage: int, sources: Sequence[int]) -> TensorDraft | None:
        """The first of these tensors that lies on that storage."""
        for number in sources:
            draft = self.drafts[number]
            if draft.storage == storage:
                return draft
        return None

    def show(self, frame: FrameDraft, number: int, tensor: torch.Tensor) -> None:
        """The tensor's numbers and version after this Frame."""
        numbers: Numbers = None
        if not self.uninitialised or self.drafts[number].storage not in self.uninitialised:
            numbers = preview(tensor)
            if numbers is None and frame.look is not None:
                numbers = frame.look(tensor)
        frame.show(number, numbers, _torch.version(tensor))

    def rebound(self, number: int, tensor: torch.Tensor) -> tuple[int, int]:
        """The tensor was given another storage (`x.data = y`): the bytes it had in the old one."""
        draft = self.drafts[number]
        before = draft.span
        self._place()
        draft.storage, draft.span = self.storage_number(tensor), _torch.span(tensor)
        self._unplaced.append((draft.storage, number))
        return before

    def reshaped(self, draft: TensorDraft, tensor: torch.Tensor) -> None:
        """The tensor has got another shape by a call that nobody sees, as `set_`: one that another process has sent."""
        draft.shape = _torch.shape(tensor)
        if self.storage_number(tensor) != draft.storage:
            self.rebound(draft.id, tensor)

    def _place(self) -> None:
        """Put those that were met since the last time where they lie: few programs ask."""
        unplaced, self._unplaced = self._unplaced, []
        for storage, number in unplaced:
            if storage in self._on_storage:
                self._on_storage[storage].append(number)
            else:
                first = self._alone.setdefault(storage, number)
                if first == number:
                    continue
                self._on_storage[storage] = [self._alone.pop(storage), number]
            if storage in self._living_on:
                self._living_on[storage].append(number)
            if storage in self._spans:
                self._spans[storage].add(number, self.drafts[number].span)

    def counter(self, tensor: torch.Tensor) -> int | None:
        """The number of its version counter; None where it has none, or was never seen."""
        draft = self.draft(tensor)
        return None if draft is None else draft.counter

    # -- names

    def name_from(self, variables: Iterable[tuple[str, torch.Tensor]]) -> list[torch.Tensor]:
        """Give names to what these variables hold now: the first name that a tensor gets stays.

        Returns the variables that no recorded call made although they have a graph, and leaves that are new.
        """
        unseen: list[torch.Tensor] = []
        for name, tensor in variables:
            draft = self._known.get(_torch.address(tensor))
            if draft is not None and deref(draft.ref) is not tensor:
                draft = None
            if draft is not None and draft.requires_grad:
                draft.name = draft.name or name
                continue
            known = draft is None and self.existed_at_start(tensor)
            if not known and tensor.requires_grad and (not self.is_leaf(tensor) or self.is_new(tensor)):
                unseen.append(tensor)
            if draft is None and not known:
                self.foresee(tensor, name)
            elif draft is not None and draft.name is None:
                draft.name = name
        return unseen

    def aliases(self, spaces: Iterable[Sequence[tuple[str, torch.Tensor]]]) -> dict[int, str]:
        """Results with a name in a function that is over → the one that they have in those under way."""
        names: dict[int, list[str]] = {}
        for name, tensor in (each for variables in spaces for each in variables):
            draft = self.draft(tensor)
            if draft is not None and draft.name is not None and "." not in draft.name and not draft.is_leaf:
                names.setdefault(draft.id, []).append(name)
        return {number: found[-1] for number, found in names.items() if self.drafts[number].name not in found}

    # -- end

    def let_go(self, tensor: torch.Tensor) -> None:
        """The tensor gets another body: what it was is gone, what it is will be met."""
        draft = self._known.pop(_torch.address(tensor), None)
        self._foreseen.pop(_torch.address(tensor), None)
        if draft is not None:
            draft.ref = _torch.GONE

    def let_all_go(self) -> None:
        """Nothing more is to be seen: refer to no tensor any longer."""
        self._known.clear()
        self._foreseen.clear()
        for draft in self.drafts.values():
            draft.ref = _torch.GONE

    def forget_dead(self) -> set[int]:
        """Drop the addresses of tensors and storages that are gone; the storages that aren't."""
        self._known = {key: draft for key, draft in self._known.items() if deref(draft.ref) is not None}
        self._foreseen = {key: entry for key, entry in self._foreseen.items() if deref(entry[0]) is not None}
        self._place()
        self._on_storage = {key: live for key in self._on_storage if (live := self.on_storage(key))}
        self._alone = {key: number for key, number in self._alone.items() if self._lives(number)}
        self._living_on.clear()
        self._spans.clear()
        return self._storages.forget_dead()

    def living(self) -> set[int]:
        """Numbers of the tensors that the program, or a graph that it holds, still has."""
        return {number for number, draft in self.drafts.items() if deref(draft.ref) is not None}

    def forget(self, kept: set[int]) -> None:
        """Drop all other tensors."""
        self.drafts = {number: draft for number, draft in self.drafts.items() if number in kept}
