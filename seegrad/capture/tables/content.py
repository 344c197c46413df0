"""The bytes of a tensor, remembered so that a later look can tell whether they have changed.

Of few bytes a copy is kept, of many a fingerprint; both are made, kept and compared on the tensor's own device.

A fingerprint takes the bytes as whole numbers, writes them in rows, and keeps the sum of each row and of each column.
That reads memory as fast as `torch.sum` does, and whole numbers lose nothing: a changed byte moves the sum of its row,
and of two numbers that have changed places the sums of their rows, or of their columns. Minus zero isn't zero here, and
a NaN is the NaN that it was.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from seegrad.capture.probes import torch_private as _torch

FEW_BYTES = 2**16
"""Up to here a copy costs less than a fingerprint."""

LANE = 8
"""Bytes that are added as one number."""

ROW = 509
"""Numbers in a row: a prime, so that no row is a whole number of anybody's."""

BLOCK = 256
"""Rows of which the CPU takes both sums before it goes on: a second reading from its cache costs little."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Sums by which contents are told apart."""

    sums: torch.Tensor


Content = torch.Tensor | Fingerprint
"""What is remembered of a tensor's bytes."""


def has_bytes(tensor: torch.Tensor) -> bool:
    """True where there's memory whose bytes can be read now: what a CUDA graph's capture makes has no numbers yet."""
    strided = tensor.layout is torch.strided and tensor.device.type != "meta" and not tensor.is_nested
    if not strided or _torch.is_opaque(tensor) or _torch.is_freed(tensor):
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def answers_at_once(tensor: torch.Tensor) -> bool:
    """True where a look at the bytes waits for no device."""
    return tensor.device.type == "cpu"


def kept(tensor: torch.Tensor, few: int = FEW_BYTES) -> Content:
    """What to remember of the bytes as they are now: up to `few` bytes a copy."""
    return tensor.detach().clone() if _bytes_of(tensor) <= few or tensor.is_quantized else fingerprint(tensor)


def seen(tensor: torch.Tensor, before: Content) -> Content:
    """The bytes as they are now, to be compared with `before`; of few bytes no copy is made for that."""
    return fingerprint(tensor) if isinstance(before, Fingerprint) else tensor.detach()


def again(tensor: torch.Tensor, before: Content) -> Content:
    """What to remember of the bytes as they are now, of the same kind as what was remembered before."""
    return fingerprint(tensor) if isinstance(before, Fingerprint) else tensor.detach().clone()


def signs(tensor: torch.Tensor) -> Fingerprint:
    """Of the signs alone."""
    return fingerprint(tensor.detach().sgn())


def same(before: Content, now: Content) -> bool:
    """True for equal contents; of copies a NaN equals a NaN. Waits for the device."""
    if isinstance(before, Fingerprint):
        return isinstance(now, Fingerprint) and torch.equal(before.sums, now.sums)
    assert isinstance(now, torch.Tensor)  # noqa: S101  # `seen` gives what `kept` gave
    if before.shape != now.shape or before.dtype != now.dtype:
        return False
    try:
        return torch.equal(before, now) or bool(((before == now) | (before.isnan() & now.isnan())).all())
    except (RuntimeError, NotImplementedError):  # a kind of number that torch keeps and doesn't compare
        return torch.equal(fingerprint(before).sums, fingerprint(now).sums)


def differ(before: Content, now: Content) -> torch.Tensor:
    """The same, asked on the device: a flag that is true where the contents differ."""
    old, new = (each.sums if isinstance(each, Fingerprint) else each for each in (before, now))
    if old.shape != new.shape:  # it was put on another storage
        return torch.ones((), dtype=torch.bool, device=new.device)
    return ((old != new) & ~(old.isnan() & new.isnan())).any()


class Looks:
    """What was seen of bytes: of one storage, one version and the same elements, no two looks are needed."""

    def __init__(self) -> None:
        self._seen: dict[int, dict[Any, tuple[int | None, Content]]] = {}  # storage → elements → version …

    def at(self, storage: int, tensor: torch.Tensor, look: Callable[[torch.Tensor], Content]) -> Content:
        """The content of a tensor, as it was seen at this version or as a look shows it now."""
        looks, version = self._seen.setdefault(storage, {}), _torch.version(tensor)
        turned = tensor.is_conj(), tensor.is_neg()
        key = tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype, turned
        known = looks.get(key)
        if known is None or known[0] != version:
            known = looks[key] = version, look(tensor)
        return known[1]

    def forget(self, storages: Iterable[int]) -> None:
        """These were written."""
        for storage in storages:
            self._seen.pop(storage, None)

    def keep(self, storages: Container[int]) -> None:
        """Drop all others."""
        self._seen = {storage: looks for storage, looks in self._seen.items() if storage in storages}

    def clear(self) -> None:
        """Anything may have been written."""
        self._seen.clear()


def fingerprint(tensor: torch.Tensor) -> Fingerprint:
    """Sums of all the bytes, in the order in which they lie in memory.

    >>> x = torch.arange(3000.0)
    >>> before, x[1234] = fingerprint(x), -1.0
    >>> same(before, fingerprint(x))
    False
    """
    lanes, tail = _lanes(tensor)
    rows, start = lanes.numel() // ROW, lanes.storage_offset()
    table = lanes.as_strided((rows, ROW), (ROW, 1))
    rest = lanes.as_strided((lanes.numel() - rows * ROW,), (1,), start + rows * ROW)
    return Fingerprint(torch.cat([*_sums(table), rest, *tail]))


def _sums(table: torch.Tensor) -> list[torch.Tensor]:
    """Of each row and of each column."""
    if len(table) <= 2 * BLOCK or table.device.type != "cpu":
        return [table.sum(1), table.sum(0)]
    return [each for block in torch.split(table, BLOCK) for each in (block.sum(1), block.sum(0))]


def _lanes(tensor: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The bytes as one row of whole numbers, and those that are left over."""
    flat = _flat(tensor.detach())
    over = flat.numel() * flat.element_size() % LANE
    if not over:
        return flat.view(torch.int64), []
    whole = flat.numel() - over // flat.element_size()
    return flat[:whole].view(torch.int64), [flat[whole:].view(torch.uint8).to(torch.int64)]


def _flat(plain: torch.Tensor) -> torch.Tensor:
    """The elements in one row; of a tensor with gaps, or one that begins within a lane, a copy."""
    size = plain.element_size()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    if not plain.is_contiguous():
        start, stop = _torch.span(plain)
        gaps = stop - start > plain.numel() * size
        plain = plain.contiguous() if gaps else plain.as_strided(((stop - start) // size,), (1,))
    if plain.storage_offset() * size % LANE:
        plain = plain.clone()
    return plain.view(-1)


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
