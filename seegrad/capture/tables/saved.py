"""What Nodes save, held weakly, and whether its bytes are still those that were saved."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.model.derivatives import reads_sign_only, serves

MAX_COPY_BYTES = 64 * 2**20
"""Bigger saved tensors are compared by fingerprint."""


@dataclass(slots=True)
class Saved:
    """One saved tensor of one Node, held weakly."""

    node: int
    index: int
    attr: str
    tensor: int  # the program's tensor: itself, or for a result the output that it is an alias of
    ref: _torch.WeakTensor
    version: int | None
    storage: int
    span: tuple[int, int]
    name: str  # of the Node
    slots: int  # number of the Node's Edges; 0 where its formula doesn't read it
    checked: bool = True  # torch compares its version
    original: torch.Tensor | int | None = None  # a copy, or a fingerprint
    last: torch.Tensor | int | None = None  # the same, moved on after each change that was reported
    assumed: bool = False  # a write hit its bytes and they couldn't be compared

    def keep(self, tensor: torch.Tensor) -> None:
        """Remember the bytes as they are now."""
        strided = tensor.device.type == "cpu" and tensor.layout is torch.strided
        if self.original is None and strided and not _torch.is_opaque(tensor) and not _torch.is_freed(tensor):
            self.original = self.last = content(tensor)

    @property
    def serves(self) -> tuple[int, ...]:
        """The input slots whose gradient reads it."""
        return serves(self.name, self.attr, self.slots)

    def suspect(self) -> bool:
        """True when it's worth asking whether its bytes have changed: a write may have hit them."""
        return self.assumed or self.original is not None

    def changed(self) -> bool:
        """True when the version hasn't moved although the bytes differ from those that were saved."""
        if not self.suspect():
            return False
        tensor = self.ref()
        if tensor is None or (self.checked and _torch.version(tensor) != self.version):
            return False
        if self.original is None:
            return self.assumed
        if _torch.is_freed(tensor):
            return False
        now = content(tensor)
        signs = reads_sign_only(self.name, self.attr)
        if signs and isinstance(self.original, torch.Tensor) and isinstance(now, torch.Tensor):
            return not same(self.original.sgn(), now.sgn())
        return not same(self.original, now)


def content(tensor: torch.Tensor) -> torch.Tensor | int:
    """A copy of the bytes, or for big tensors a number that depends on every byte and its position."""
    plain = tensor.detach()
    if plain.numel() * plain.element_size() <= MAX_COPY_BYTES:
        return plain.clone()
    data = plain.contiguous().reshape(-1).view(torch.uint8).to(torch.int64)
    places = torch.arange(data.numel(), dtype=torch.int64) * 2654435761 + 97
    return int((data * places).sum())


def same(before: torch.Tensor | int, now: torch.Tensor | int) -> bool:
    """True for equal contents; a NaN equals a NaN."""
    if isinstance(before, int) or isinstance(now, int):
        return isinstance(before, int) and before == now
    if before.shape != now.shape or before.dtype != now.dtype:
        return False
    if torch.equal(before, now):
        return True
    return bool(((before == now) | (before.isnan() & now.isnan())).all())


class SavedTensors:
    """All saved tensors of one Recording that live Nodes keep, by storage."""

    def __init__(self, *, every: bool) -> None:
        self._every = every
        self._by_storage: dict[int, list[Saved]] = {}
        self._by_node: dict[int, list[Saved]] = {}
        self._watched: set[int] = set()

    def add(self, saved: Saved, tensor: torch.Tensor) -> None:
        """A Node was born that keeps `tensor`."""
        self._by_storage.setdefault(saved.storage, []).append(saved)
        self._by_node.setdefault(saved.node, []).append(saved)
        if self._every or saved.storage in self._watched or _torch.escaped(tensor):
            self._watched.add(saved.storage)
            saved.keep(tensor)

    @property
    def watching(self) -> bool:
        """True when there are bytes to compare at every event."""
        return bool(self._watched)

    def live(self, storage: int) -> Iterator[tuple[Saved, torch.Tensor]]:
        """Saved tensors on a storage that still live."""
        for saved in self._by_storage.get(storage, ()):
            tensor = saved.ref()
            if tensor is not None:
                yield saved, tensor

    def keep(self, storage: int) -> None:
        """A write to this storage may follow: remember what is saved there."""
        for saved, tensor in self.live(storage):
            saved.keep(tensor)

    def differs(self, storage: int) -> bool:
        """True when something saved there has just changed although its version stood."""
        return any(
            not same(saved.last, content(tensor))
            for saved, tensor in self.live(storage)
            if saved.last is not None and _torch.version(tensor) == saved.version and not _torch.is_freed(tensor)
        )

    def watch(self, storage: int) -> None:
        """Someone outside torch holds these bytes from now on: compare them at every event."""
        self._watched.add(storage)
        self.keep(storage)

    def written(self, storage: int, span: tuple[int, int]) -> None:
        """A write was seen: what can't be compared counts as changed where bytes overlap and the version stood."""
        for saved, tensor in self.live(storage):
            if saved.original is None and (not saved.checked or _torch.version(tensor) == saved.version):
                saved.assumed |= span[0] < saved.span[1] and saved.span[0] < span[1]
            elif saved.original is not None and not _torch.is_freed(tensor):
                saved.last = content(tensor)

    def changed_behind(self) -> list[tuple[Saved, torch.Tensor]]:
        """Watched saved tensors whose bytes changed since the last look, with no write seen. One a storage."""
        found: dict[int, tuple[Saved, torch.Tensor]] = {}
        for storage in self._watched:
            for saved, tensor in self.live(storage):
                if saved.last is None or _torch.is_freed(tensor) or _torch.version(tensor) != saved.version:
                    continue
                now = content(tensor)
                if not same(saved.last, now):
                    saved.last = now
                    found.setdefault(storage, (saved, tensor))
        return list(found.values())

    def release(self, nodes: Iterable[int]) -> None:
        """These Nodes are gone, or backward has freed what they kept."""
        for storage in {saved.storage for node in nodes for saved in self._by_node.pop(node, ())}:
            _sift(self._by_storage, storage, lambda saved: saved.node in self._by_node)

    def forget_dead(self, storages: Container[int]) -> None:
        """Drop the saved tensors that no longer exist; `storages` are those that do."""
        for table in (self._by_storage, self._by_node):
            for key in list(table):
                _sift(table, key, lambda saved: saved.ref() is not None)
        self._watched = {storage for storage in self._watched if storage in storages}


def _sift(table: dict[int, list[Saved]], key: int, keep: Callable[[Saved], bool]) -> None:
    """Keep some of a group, and the group only if anything is left of it."""
    table[key] = [saved for saved in table[key] if keep(saved)]
    if not table[key]:
        del table[key]
