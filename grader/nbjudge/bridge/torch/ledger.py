"""What both processes know of shared tensors: one side's tables, and how an entry leaves them again.

The judge decides how long a tensor is shared: it holds its own weakly, and says in each message which ones have gone.
The student's side holds what the judge may still ask for.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from nbjudge.bridge.torch import torch_private
from nbjudge.bridge.torch.autograd import Edge, Link, Look, same_counter
from nbjudge.bridge.torch.records import TensorRecord
from nbjudge.bridge.torch.storages import Storage
from nbjudge.errors import WireError


class Gone(NamedTuple):
    """What one side no longer needs of the other."""

    tensors: tuple[int, ...] = ()
    storages: tuple[int, ...] = ()
    links: tuple[int, ...] = ()


@dataclass(slots=True)
class Agreed:
    """What both sides hold of one tensor."""

    record: TensorRecord
    edge: Edge | None
    look: Look | None
    grad: int | None = None


@dataclass(slots=True)
class Ledger:
    """The tables of one side. `weak`: this side decides how long things are shared."""

    weak: bool
    links: dict[int, Link] = field(default_factory=dict)
    storages: dict[int, Storage] = field(default_factory=dict)
    edges: dict[Edge, int] = field(default_factory=dict)  # where the history of a shared tensor begins
    agreed: dict[int, Agreed] = field(default_factory=dict)
    foreign: set[int] = field(default_factory=set)  # tensors that the other side brought in
    dead_links: list[int] = field(default_factory=list)  # of the other side's, no longer needed here
    _strong: dict[int, Tensor] = field(default_factory=dict)
    _references: dict[int, weakref.ref[Tensor]] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)  # id() of a living tensor → its number
    _pointers: dict[int, int] = field(default_factory=dict)  # address → storage
    _counters: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # storage → (counter, tensor)
    _dead: list[int] = field(default_factory=list)
    _pinned: list[Tensor] = field(default_factory=list)
    _pins: int = 0
    _leaves: list[Tensor] = field(default_factory=list)

    # ------------------------------------------------------------------ tensors

    def hold(self, number: int, tensor: Tensor, *, foreign: bool = False) -> None:
        """From now on this tensor is shared under this number; `foreign`: the other side brought it in."""
        if foreign:
            self.foreign.add(number)
        if self._pins:
            self._pinned.append(tensor)
        key = id(tensor)
        self._numbers[key] = number
        if not self.weak:
            self._strong[number] = tensor
            return
        self._references[number] = weakref.ref(tensor, lambda _gone: self._mourn(number, key))
        if self._may_get_a_grad(number, tensor):
            self._leaves.append(tensor)

    def release(self, number: int, tensor: Tensor) -> None:
        """It couldn't be told of after all: it isn't shared."""
        self._strong.pop(number, None)
        self._references.pop(number, None)
        self._numbers.pop(id(tensor), None)
        self.agreed.pop(number, None)

    @contextlib.contextmanager
    def pinned(self) -> Iterator[None]:
        """Meanwhile nothing that is shared may vanish: the other side may be about to name it."""
        if not self._pins:
            self._pinned = [tensor for _, tensor in self.tensors()]
        self._pins += 1
        try:
            yield
        finally:
            self._pins -= 1
            if not self._pins:
                self._pinned = []
                self._keep_leaves()

    def _keep_leaves(self) -> None:
        """A leaf that the other side brought in and that lives now does so until the next question is answered, which
        tells its gradient: over there that may be wanted when nothing here names the leaf any more."""
        self._leaves.clear()  # first: these have been told
        if self.weak:
            self._leaves += [tensor for number, tensor in self.tensors() if self._may_get_a_grad(number, tensor)]

    def _may_get_a_grad(self, number: int, tensor: Tensor) -> bool:
        return number in self.foreign and torch_private.requires_grad(tensor) and torch_private.is_leaf(tensor)

    def _mourn(self, number: int, key: int) -> None:
        self._numbers.pop(key, None)
        self._references.pop(number, None)
        self._dead.append(number)

    def number_of(self, tensor: Tensor) -> int | None:
        """The number of a tensor that is shared already."""
        return self._numbers.get(id(tensor))

    def find(self, number: int) -> Tensor | None:
        """The tensor under a number, while it lives."""
        reference = self._references.get(number)
        return reference() if reference is not None else self._strong.get(number)

    def tensor(self, number: int) -> Tensor:
        """The tensor that both sides know under this number; WireError where there is none."""
        found = self.find(number)
        if found is None:
            raise WireError("A frame names a tensor that isn't shared.")
        return found

    def tensors(self) -> list[tuple[int, Tensor]]:
        """Every living shared tensor."""
        numbers = list(self._references) if self.weak else list(self._strong)
        return [(number, tensor) for number in numbers if (tensor := self.find(number)) is not None]

    # ------------------------------------------------------------------ storages and version counters

    def know(self, storage: Storage) -> None:
        """From now on this storage is shared."""
        self.storages[storage.id] = storage
        if pointer := storage.here.data_ptr():
            self._pointers[pointer] = storage.id

    def storage_at(self, storage: torch.UntypedStorage, number: int) -> int | None:
        """The number of a storage that is shared already; an empty one is known by its tensor only."""
        pointer = storage.data_ptr()
        if pointer:
            return self._pointers.get(pointer)
        known = self.agreed.get(number)
        return None if known is None else known.record.window.storage

    def counter(self, number: int, tensor: Tensor, storage: int) -> int:
        """The number of the version counter: shared by views and `detach()`, not by `.data`."""
        known = self._counters.setdefault(storage, [])
        for counter, member in known:
            if member == number:
                return counter
        for counter, member in known:
            kin = self.find(member)
            if kin is not None and same_counter(kin, tensor):
                known.append((counter, number))
                return counter
        known.append((number, number))
        return number

    def kin(self, counter: int, storage: int) -> Iterator[Tensor]:
        """Tensors on this storage that have this version counter; one that has lain there may have got other data."""
        for known, member in self._counters.get(storage, ()):
            agreed = self.agreed.get(member)
            here = known == counter and agreed is not None and agreed.record.window.storage == storage
            if here and (tensor := self.find(member)) is not None:
                yield tensor

    def note_counter(self, number: int, counter: int, storage: int) -> None:
        """The other side says that this tensor has this version counter."""
        known = self._counters.setdefault(storage, [])
        if all(member != number for _, member in known):
            known.append((counter, number))

    # ------------------------------------------------------------------ leaving

    def gone(self) -> Gone:
        """What has ended here since the last message; it leaves this side's tables now, the other's when it hears."""
        links, dead = tuple(self.dead_links), tuple(self._dead)
        del self.dead_links[: len(links)], self._dead[: len(dead)]  # in place: who appends holds these very lists
        used = {known.record.window.storage for number, known in self.agreed.items() if number not in dead}
        storages = tuple(number for number in self.storages if number not in used) if dead else ()
        gone = Gone(dead, storages, links)
        self._drop(gone)
        return gone

    def forget(self, gone: Gone) -> None:
        """The other side doesn't need these any more."""
        for number in gone.tensors:
            tensor = self._strong.pop(number, None)
            if tensor is not None:
                self._numbers.pop(id(tensor), None)
        for number in gone.links:
            self.links.pop(number, None)
        self._drop(gone)

    def _drop(self, gone: Gone) -> None:
        if not gone.tensors:
            return
        dead = set(gone.tensors)
        for number in dead:
            self.agreed.pop(number, None)
        self.foreign -= dead
        self.edges = {edge: number for edge, number in self.edges.items() if number not in dead}
        for number in gone.storages:
            storage = self.storages.pop(number, None)
            self._counters.pop(number, None)
            if storage is not None:
                self._pointers.pop(storage.here.data_ptr(), None)
        for members in self._counters.values():
            members[:] = [pair for pair in members if pair[1] not in dead]
