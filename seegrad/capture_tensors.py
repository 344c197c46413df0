"""The tensors that were seen: numbered, named, and known again by address and weak reference, never by `id()`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from types import FrameType
from typing import Any

import torch

from . import _torch
from .model import Route, TensorRef
from .names import named_tensors

NAME_PATIENCE = 8
"""Events after which a tensor without a variable is taken for a temporary."""


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
    """All tensors of one Recording."""

    def __init__(self) -> None:
        self.drafts: list[TensorDraft] = []
        self._known: dict[int, tuple[_torch.TensorWeakRef, int]] = {}
        self._refs: list[_torch.TensorWeakRef] = []
        self._storages: dict[int, tuple[Callable[[], bool], int]] = {}
        self._on_storage: dict[int, list[int]] = {}
        self._initial: dict[int, tuple[_torch.TensorWeakRef, str]] = {}
        self._unnamed: dict[int, int] = {}
        self._storage_count = 0
        self._counter_count = 0

    # -- who is it

    def start(self, frame: FrameType) -> None:
        """Remember what exists, and under which name, before the block runs."""
        for name, tensor in named_tensors(frame):
            self._initial.setdefault(_torch.tensor_key(tensor), (_torch.TensorWeakRef(tensor), name))

    def find(self, tensor: torch.Tensor) -> int | None:
        """Its number, None when it was never seen."""
        entry = self._known.get(_torch.tensor_key(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else None

    def alive(self, number: int) -> torch.Tensor | None:
        """The tensor of that number, None when the program has dropped it."""
        found: torch.Tensor | None = self._refs[number]()
        return found

    def existed_at_start(self, tensor: torch.Tensor) -> bool:
        """True when a variable held it before the block ran."""
        entry = self._initial.get(_torch.tensor_key(tensor))
        return entry is not None and entry[0]() is tensor

    def storage_number(self, tensor: torch.Tensor) -> int:
        """Its storage's number. A layout without a storage gets a number of its own."""
        key = _torch.storage_key(tensor)
        entry = self._storages.get(key) if key is not None else None
        if entry is not None and entry[0]():
            return entry[1]
        number, self._storage_count = self._storage_count, self._storage_count + 1
        if key is not None:
            self._storages[key] = (_torch.storage_ref(tensor), number)
        return number

    def on_storage(self, storage: int) -> list[int]:
        """Numbers of the tensors on a storage that still live."""
        return [number for number in self._on_storage.get(storage, ()) if self._refs[number]() is not None]

    # -- see it

    def see(self, tensor: torch.Tensor, frame: int, sources: Iterable[torch.Tensor] = (), route: Route = "view") -> int:
        """Its number; a tensor met for the first time is described. `sources` are the tensors it may alias."""
        number = self.find(tensor)
        if number is not None:
            draft = self.drafts[number]
            draft.is_leaf, draft.requires_grad = tensor.is_leaf, tensor.requires_grad
            return number
        base = _torch.base(tensor)
        if base is not None and self.find(base) is None:
            self.see(base, frame)
        return self._describe(tensor, frame, [*sources, *([base] if base is not None else [])], route)

    def _describe(self, tensor: torch.Tensor, frame: int, sources: list[torch.Tensor], route: Route) -> int:
        storage, number = self.storage_number(tensor), len(self.drafts)
        source = self._source(tensor, storage, sources)
        draft = TensorDraft(
            id=number,
            name=self._initial[_torch.tensor_key(tensor)][1] if self.existed_at_start(tensor) else None,
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            device=str(tensor.device),
            is_leaf=tensor.is_leaf,
            requires_grad=tensor.requires_grad,
            storage=storage,
            counter=self._counter(tensor, source, route),
            span=_torch.span(tensor),
            frame=frame,
            alias_of=source.id if source else None,
            route=route if source else "self",
            parameter=isinstance(tensor, torch.nn.Parameter),
        )
        self.drafts.append(draft)
        ref = _torch.TensorWeakRef(tensor)
        self._refs.append(ref)
        self._known[_torch.tensor_key(tensor)] = (ref, number)
        self._on_storage.setdefault(storage, []).append(number)
        if draft.name is None:
            self._unnamed[number] = NAME_PATIENCE
        return number

    def _source(self, tensor: torch.Tensor, storage: int, sources: list[torch.Tensor]) -> TensorDraft | None:
        numbers = [number for each in sources if each is not tensor and (number := self.find(each)) is not None]
        return next((self.drafts[number] for number in numbers if self.drafts[number].storage == storage), None)

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

    def name_from(self, frames: Sequence[FrameType | dict[str, Any]]) -> list[torch.Tensor]:
        """Give names to what the frames' variables hold now: the outermost frame's name wins.

        Returns the variables that no recorded call made although they have a graph.
        """
        unseen: list[torch.Tensor] = []
        if not self._unnamed:
            return unseen
        for name, tensor in chain.from_iterable(map(named_tensors, frames)):
            number = self.find(tensor)
            known = self.drafts[number].requires_grad if number is not None else self.existed_at_start(tensor)
            if tensor.requires_grad and not tensor.is_leaf and not known:
                unseen.append(tensor)
            if number in self._unnamed:
                self.drafts[number].name = name
                del self._unnamed[number]
        for number in list(self._unnamed):
            self._unnamed[number] -= 1
            if not self._unnamed[number]:
                del self._unnamed[number]
        return unseen

    # -- end

    def forget_dead(self) -> None:
        """Drop the addresses of tensors and storages that are gone."""
        self._known = {key: entry for key, entry in self._known.items() if entry[0]() is not None}
        self._on_storage = {key: live for key in self._on_storage if (live := self.on_storage(key))}
        self._storages = {key: entry for key, entry in self._storages.items() if entry[0]()}

    def freeze(self) -> tuple[TensorRef, ...]:
        """All drafts as the model's TensorRefs."""
        return tuple(TensorRef(**asdict(draft)) for draft in self.drafts)
