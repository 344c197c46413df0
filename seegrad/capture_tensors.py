"""The tensors that were seen: numbered, named, and known again by address and weak reference, never by `id()`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from . import _torch
from .capture_frames import sides
from .capture_ids import Ids
from .model import Route, TensorRef


@dataclass(slots=True)
class TensorDraft:
    """A TensorRef in the making."""

    id: int
    name: str | None
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    is_leaf: bool
    requires_grad: bool
    storage: int
    counter: int | None
    span: tuple[int, int]
    frame: int
    alias_of: int | None = None
    route: Route = "self"
    parameter: bool = False

    def freeze(self, ids: Ids) -> TensorRef:
        """The TensorRef as the model has it."""
        alias_of = ids.one(ids.tensors, self.alias_of)
        return TensorRef(
            id=ids.tensors[self.id],
            name=self.name,
            shape=sides(self.shape),
            dtype=str(self.dtype).removeprefix("torch."),
            device=str(self.device),
            is_leaf=self.is_leaf,
            requires_grad=self.requires_grad,
            storage=self.storage,
            counter=self.counter,
            span=self.span,
            frame=ids.frames[self.frame],
            alias_of=alias_of,
            route=self.route if alias_of is not None else "self",
            parameter=self.parameter,
        )


class Tensors:
    """All tensors of one Recording that weren't forgotten."""

    def __init__(self) -> None:
        self.drafts: dict[int, TensorDraft] = {}
        self._next = 0
        self._known: dict[int, tuple[_torch.TensorWeakRef, int]] = {}
        self._refs: dict[int, _torch.TensorWeakRef] = {}
        self._storages: dict[int, tuple[_torch.StorageRef, int]] = {}
        self._on_storage: dict[int, list[int]] = {}
        self._foreseen: dict[int, tuple[_torch.TensorWeakRef, str, bool]] = {}
        self._storage_count = 0
        self._counter_count = 0

    # -- who is it

    def find(self, tensor: torch.Tensor) -> int | None:
        """Its number, None when it was never seen."""
        entry = self._known.get(_torch.tensor_key(tensor))
        return entry[1] if entry is not None and entry[0].ref() is tensor else None

    def ref(self, number: int) -> _torch.TensorWeakRef:
        """The weak reference to the tensor of that number."""
        return self._refs[number]

    def alive(self, number: int) -> torch.Tensor | None:
        """The tensor of that number, None when the program has dropped it."""
        found: torch.Tensor | None = self._refs[number]() if number in self._refs else None
        return found

    def foresee(self, tensor: torch.Tensor, name: str, *, existed: bool = False) -> None:
        """Remember the name of a tensor that may be met later; `existed`: it was there before the block ran."""
        number = self.find(tensor)
        if number is not None and self.drafts[number].name is None:
            self.drafts[number].name = name
        if number is None and self._foreseen_as(tensor) is None:
            self._foreseen[_torch.tensor_key(tensor)] = (_torch.TensorWeakRef(tensor), name, existed)

    def existed_at_start(self, tensor: torch.Tensor) -> bool:
        """True when a variable held it before the block ran."""
        entry = self._foreseen_as(tensor)
        return entry is not None and entry[1]

    def is_new(self, tensor: torch.Tensor) -> bool:
        """True for a tensor that was neither met nor seen in a variable."""
        return self.find(tensor) is None and self._foreseen_as(tensor) is None

    def _foreseen_as(self, tensor: torch.Tensor) -> tuple[str, bool] | None:
        entry = self._foreseen.get(_torch.tensor_key(tensor))
        return entry[1:] if entry is not None and entry[0].ref() is tensor else None

    def storage_number(self, tensor: torch.Tensor) -> int:
        """Its storage's number. A layout without a storage gets a number of its own."""
        key = _torch.storage_key(tensor)
        entry = self._storages.get(key) if key is not None else None
        if entry is not None and not entry[0].expired():
            return entry[1]
        number, self._storage_count = self._storage_count, self._storage_count + 1
        if key is not None:
            self._storages[key] = (_torch.storage_ref(tensor), number)
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

    # -- see it

    def see(self, tensor: torch.Tensor, frame: int, sources: Sequence[int] = (), route: Route = "view") -> int:
        """Its number; a tensor met for the first time is described. `sources` are the tensors it may alias."""
        number = self.find(tensor)
        if number is not None:
            draft = self.drafts[number]
            draft.is_leaf, draft.requires_grad = _torch.is_leaf(tensor), tensor.requires_grad
            return number
        base = _torch.base(tensor)
        if base is not None:
            sources = (*sources, self.see(base, frame))
        return self._describe(tensor, frame, sources, route)

    def _describe(self, tensor: torch.Tensor, frame: int, sources: Sequence[int], route: Route) -> int:
        storage, number, foreseen = self.storage_number(tensor), self._next, self._foreseen_as(tensor)
        source = next((each for i in sources if (each := self.drafts[i]).storage == storage), None) if sources else None
        self._next += 1
        self.drafts[number] = TensorDraft(
            id=number,
            name=foreseen[0] if foreseen is not None else None,
            shape=_torch.shape(tensor),
            dtype=tensor.dtype,
            device=tensor.device,
            is_leaf=_torch.is_leaf(tensor),
            requires_grad=tensor.requires_grad,
            storage=storage,
            counter=self._counter(tensor, source, route),
            span=_torch.span(tensor),
            frame=frame,
            alias_of=source.id if source else None,
            route=route if source else "self",
            parameter=issubclass(type(tensor), torch.nn.Parameter),
        )
        ref = self._refs[number] = _torch.TensorWeakRef(tensor)
        self._known[_torch.tensor_key(tensor)] = (ref, number)
        self._on_storage.setdefault(storage, []).append(number)
        return number

    def _counter(self, tensor: torch.Tensor, source: TensorDraft | None, route: Route) -> int | None:
        if _torch.version(tensor) is None:
            return None
        if source is not None and route != "data":
            return source.counter
        self._counter_count += 1
        return self._counter_count - 1

    def rebound(self, number: int, tensor: torch.Tensor) -> None:
        """The tensor was given another storage (`x.data = y`)."""
        draft = self.drafts[number]
        draft.storage, draft.span = self.storage_number(tensor), _torch.span(tensor)
        self._on_storage.setdefault(draft.storage, []).append(number)

    # -- names

    def name_from(self, variables: Iterable[tuple[str, torch.Tensor]]) -> list[torch.Tensor]:
        """Give names to what these variables hold now: the first name that a tensor gets stays.

        Returns the variables that no recorded call made although they have a graph.
        """
        unseen: list[torch.Tensor] = []
        for name, tensor in variables:
            number = self.find(tensor)
            draft = self.drafts[number] if number is not None else None
            known = draft.requires_grad if draft is not None else self.existed_at_start(tensor)
            if not known and tensor.requires_grad and not _torch.is_leaf(tensor):
                unseen.append(tensor)
            if draft is None and not known:
                self.foresee(tensor, name)
            elif draft is not None and draft.name is None:
                draft.name = name
        return unseen

    # -- end

    def forget_dead(self) -> set[int]:
        """Drop the addresses of tensors and storages that are gone; the storages that aren't."""
        self._known = {key: entry for key, entry in self._known.items() if entry[0].ref() is not None}
        self._foreseen = {key: entry for key, entry in self._foreseen.items() if entry[0].ref() is not None}
        self._on_storage = {key: live for key in self._on_storage if (live := self.on_storage(key))}
        self._storages = {key: entry for key, entry in self._storages.items() if not entry[0].expired()}
        return {number for _, number in self._storages.values()}

    def living(self) -> set[int]:
        """Numbers of the tensors that the program, or a graph that it holds, still has."""
        return {number for number, ref in self._refs.items() if ref() is not None}

    def forget(self, kept: set[int]) -> None:
        """Drop all other tensors."""
        self.drafts = {number: draft for number, draft in self.drafts.items() if number in kept}
        self._refs = {number: ref for number, ref in self._refs.items() if number in kept}
