"""The tensors that were seen: numbered, named, and known again by address and weak reference, never by `id()`."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.tables.frames import sides
from seegrad.model.recording import Route

deref = weakref.ref.__call__
"""The tensor behind a weak reference, for a look that doesn't take hold of it."""


@lru_cache
def spelled(kind: torch.dtype | torch.device) -> str:
    """A dtype or a device as the model has it.

    >>> spelled(torch.float32), spelled(torch.device("cpu"))
    ('float32', 'cpu')
    """
    return str(kind).removeprefix("torch.")


@dataclass(slots=True)
class TensorDraft:
    """A TensorRef in the making."""

    id: int
    name: str | None
    shape: tuple[int, ...]
    dtype: str
    device: str
    is_leaf: bool
    requires_grad: bool
    storage: int
    counter: int | None
    span: tuple[int, int]
    frame: int
    alias_of: int | None = None
    route: Route = "self"
    parameter: bool = False


class Tensors:
    """All tensors of one Recording that weren't forgotten."""

    def __init__(self) -> None:
        self.drafts: dict[int, TensorDraft] = {}
        self._next = 0
        self._known: dict[int, int] = {}
        self._refs: dict[int, _torch.WeakTensor] = {}
        self._shapes: dict[torch.Size, tuple[int, ...]] = {}  # one object for all tensors of a shape
        self._storages: dict[int, _torch.StorageRef] = {}
        self._on_storage: dict[int, list[int]] = {}
        self._foreseen: dict[int, tuple[_torch.WeakTensor, str, bool]] = {}
        self._storage_count = 0
        self._counter_count = 0

    # -- who is it

    def find(self, tensor: torch.Tensor) -> int | None:
        """Its number, None when it was never seen."""
        number = self._known.get(_torch.tensor_key(tensor))
        ref = self._refs.get(number) if number is not None else None
        return number if ref is not None and deref(ref) is tensor else None

    def ref(self, number: int) -> _torch.WeakTensor:
        """The weak reference to the tensor of that number."""
        return self._refs[number]

    def alive(self, number: int) -> torch.Tensor | None:
        """The tensor of that number, None when the program has dropped it."""
        ref = self._refs.get(number)
        return ref() if ref is not None else None

    def foresee(self, tensor: torch.Tensor, name: str, *, existed: bool = False) -> None:
        """Remember the name of a tensor that may be met later; `existed`: it was there before the block ran."""
        number = self.find(tensor)
        if number is not None and self.drafts[number].name is None:
            self.drafts[number].name = name
        if number is None and self._foreseen_as(tensor) is None:
            self._foreseen[_torch.tensor_key(tensor)] = (_torch.WeakTensor(tensor), name, existed)

    def existed_at_start(self, tensor: torch.Tensor) -> bool:
        """True when a variable held it before the block ran."""
        entry = self._foreseen_as(tensor)
        return entry is not None and entry[1]

    def is_new(self, tensor: torch.Tensor) -> bool:
        """True for a tensor that was neither met nor seen in a variable."""
        return self.find(tensor) is None and self._foreseen_as(tensor) is None

    def _foreseen_as(self, tensor: torch.Tensor) -> tuple[str, bool] | None:
        entry = self._foreseen.get(_torch.tensor_key(tensor))
        return entry[1:] if entry is not None and deref(entry[0]) is tensor else None

    def storage_number(self, tensor: torch.Tensor) -> int:
        """Its storage's number. A layout without a storage gets a number of its own."""
        key = _torch.storage_key(tensor)
        entry = self._storages.get(key) if key is not None else None
        if entry is not None and not entry.expired():
            return entry.number
        number, self._storage_count = self._storage_count, self._storage_count + 1
        if key is not None:
            self._storages[key] = _torch.StorageRef(tensor, number)
        return number

    def sharing(self, tensor: torch.Tensor) -> TensorDraft | None:
        """The tensor itself, or one that was seen on its storage and lives; None where nobody uses that storage."""
        number = self.find(tensor)
        if number is not None:
            return self.drafts[number]
        same = self.on_storage(self.storage_number(tensor))
        return self.drafts[same[0]] if same else None

    def on_storage(self, storage: int) -> list[int]:
        """Numbers of the tensors on a storage that still live."""
        return [number for number in self._on_storage.get(storage, ()) if self.alive(number) is not None]

    def results_on(self, storage: int) -> list[int]:
        """Numbers of the tensors with a graph that were seen on a storage, gone or not."""
        drafts = (self.drafts.get(number) for number in self._on_storage.get(storage, ()))
        return [each.id for each in drafts if each is not None and each.requires_grad and not each.is_leaf]

    # -- see it

    def see(self, tensor: torch.Tensor, frame: int, sources: Sequence[int] = (), route: Route = "view") -> int:
        """Its number; a tensor met for the first time is described. `sources` are the tensors it may alias."""
        number = self._seen_again(tensor)
        if number is not None:
            return number
        base = _torch.base(tensor)
        if base is not None:  # which is nobody's view: of a view of a view, torch names the tensor at the bottom
            known = self._seen_again(base)
            sources = (*sources, self._describe(base, frame, (), "view") if known is None else known)
        return self._describe(tensor, frame, sources, route)

    def _seen_again(self, tensor: torch.Tensor) -> int | None:
        number = self.find(tensor)
        if number is not None:
            draft = self.drafts[number]
            draft.is_leaf, draft.requires_grad = _torch.is_leaf(tensor), tensor.requires_grad
        return number

    def _describe(self, tensor: torch.Tensor, frame: int, sources: Sequence[int], route: Route) -> int:
        storage, number, key = self.storage_number(tensor), self._next, _torch.tensor_key(tensor)
        foreseen = self._foreseen.get(key)
        if foreseen is not None and deref(foreseen[0]) is not tensor:
            foreseen = None
        source = next((each for i in sources if (each := self.drafts[i]).storage == storage), None) if sources else None
        self._next, shape = number + 1, _torch.shape(tensor)
        self.drafts[number] = TensorDraft(
            number,
            foreseen[1] if foreseen is not None else None,
            self._shapes.get(shape) or self._shapes.setdefault(shape, sides(shape)),
            spelled(tensor.dtype),
            spelled(tensor.device),
            _torch.is_leaf(tensor),
            tensor.requires_grad,
            storage,
            self._counter_of(tensor, source, route),
            _torch.span(tensor),
            frame,
            source.id if source is not None else None,
            route if source is not None else "self",
            issubclass(type(tensor), torch.nn.Parameter),
        )
        self._refs[number] = foreseen[0] if foreseen is not None else _torch.WeakTensor(tensor)
        self._known[key] = number
        self._on_storage.setdefault(storage, []).append(number)
        return number

    def _counter_of(self, tensor: torch.Tensor, source: TensorDraft | None, route: Route) -> int | None:
        if _torch.version(tensor) is None:
            return None
        if source is not None and route != "data":
            return source.counter
        self._counter_count += 1
        return self._counter_count - 1

    def rebound(self, number: int, tensor: torch.Tensor) -> tuple[int, int]:
        """The tensor was given another storage (`x.data = y`): the bytes it had in the old one."""
        draft = self.drafts[number]
        before = draft.span
        draft.storage, draft.span = self.storage_number(tensor), _torch.span(tensor)
        self._on_storage.setdefault(draft.storage, []).append(number)
        return before

    def counter(self, tensor: torch.Tensor) -> int | None:
        """The number of its version counter; None where it has none, or was never seen."""
        number = self.find(tensor)
        return None if number is None else self.drafts[number].counter

    # -- names

    def name_from(self, variables: Iterable[tuple[str, torch.Tensor]]) -> list[torch.Tensor]:
        """Give names to what these variables hold now: the first name that a tensor gets stays.

        Returns the variables that no recorded call made although they have a graph, and leaves that are new.
        """
        unseen: list[torch.Tensor] = []
        for name, tensor in variables:
            number = self.find(tensor)
            draft = self.drafts[number] if number is not None else None
            known = draft.requires_grad if draft is not None else self.existed_at_start(tensor)
            if not known and tensor.requires_grad and (not _torch.is_leaf(tensor) or self.is_new(tensor)):
                unseen.append(tensor)
            if draft is None and not known:
                self.foresee(tensor, name)
            elif draft is not None and draft.name is None:
                draft.name = name
        return unseen

    # -- end

    def forget_dead(self) -> set[int]:
        """Drop the addresses of tensors and storages that are gone; the storages that aren't."""
        living = self.living()
        self._known = {key: number for key, number in self._known.items() if number in living}
        self._foreseen = {key: entry for key, entry in self._foreseen.items() if deref(entry[0]) is not None}
        self._on_storage = {key: live for key in self._on_storage if (live := self.on_storage(key))}
        self._storages = {key: entry for key, entry in self._storages.items() if not entry.expired()}
        return {entry.number for entry in self._storages.values()}

    def living(self) -> set[int]:
        """Numbers of the tensors that the program, or a graph that it holds, still has."""
        return {number for number, ref in self._refs.items() if deref(ref) is not None}

    def forget(self, kept: set[int]) -> None:
        """Drop all other tensors."""
        self.drafts = {number: draft for number, draft in self.drafts.items() if number in kept}
        self._refs = {number: ref for number, ref in self._refs.items() if number in kept}
