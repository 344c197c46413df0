"""Numbers read off a tensor that is too big to be shown whole: its Summary, and a part to be walked through.

Of these nothing is read while the program runs. A tensor of at most WHOLE elements is copied, of a bigger one a few
figures are computed where it lies; what that gives is read when the Recording is asked for. And an index is asked, as
it's used, whether it names one place several times.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.model.recording import Summary

WHOLE = 4096
"""Elements of a tensor that is kept whole; of a bigger one, a corner."""

CORNER = 16
"""Longest side of a corner: its last two dimensions, and as many slices as make WHOLE / 4 elements."""

BUDGET_BYTES = 128 * 1024
"""What one Recording keeps of such numbers; beyond it the oldest give way to the newest, their figures stay."""

CELLS = 24
"""Cells of a heat strip, at most."""

FIGURES = 6  # low, high, norm, zeros, NaNs, infinities: then the cells


Numeral = Callable[[complex | float | int | bool], str]
"""How one number is written."""


def runs_ahead(tensor: torch.Tensor) -> bool:
    """True for a tensor of an accelerator: the host goes on while it computes, and a copy made there costs no wait.

    Not while a CUDA graph is captured: the copy would be a part of it.
    """
    kind = tensor.device.type
    return kind == _accelerator() and not (kind == "cuda" and torch.cuda.is_current_stream_capturing())


@lru_cache
def _accelerator() -> str:
    """Its type, empty where there is none; asked for where a tensor isn't on the CPU, so it's known by then."""
    found = torch.accelerator.current_accelerator()
    return "" if found is None else found.type


class SummaryDraft:
    """A Summary that isn't read yet: a copy of the numbers, whole or a corner, and the figures where they are known."""

    __slots__ = ("_copy", "_figures", "_is_whole", "_told")

    def __init__(self, tensor: torch.Tensor) -> None:
        numbers = tensor.detach()
        self._is_whole = numbers.numel() <= WHOLE
        self._figures = None if self._is_whole else figures(numbers)
        self._copy: torch.Tensor | None = (numbers if self._is_whole else corner(numbers)).clone()
        self._told: Summary | None = None

    @property
    def size_bytes(self) -> int:
        """What its copy takes."""
        return 0 if self._copy is None else self._copy.numel() * self._copy.element_size()

    def give_way(self, *, keeps: bool = False) -> None:
        """Keep the figures alone; `keeps`: beside the copy."""
        if self._copy is not None and self._figures is None and self._told is None:
            with contextlib.suppress(RuntimeError, NotImplementedError):  # a device that can't: nothing is shown
                self._figures = figures(self._copy)
        self._copy = self._copy if keeps else None

    @property
    def told(self) -> Summary | None:
        """The Summary, once it's no longer awaited."""
        return self._told

    def awaited(self) -> list[torch.Tensor]:
        """What is to be read: the figures, the copy."""
        if self._told is not None:
            return []
        if self._figures is None and self._copy is not None:
            self.give_way(keeps=True)
        return [] if self._figures is None else [each for each in (self._figures, self._copy) if each is not None]

    def tell(self, read: Sequence[list[Any]], numeral: Numeral) -> None:
        """It was read; `numeral` says each number."""
        if self._told is not None or not read:
            return
        (low, high, norm, *counts), cells = read[0][:FIGURES], read[0][FIGURES:]
        kept = " ".join(map(numeral, read[1])) if len(read) > 1 else ""
        shape = () if self._copy is None else tuple(self._copy.shape)
        bounds = (numeral(low), numeral(high), numeral(norm)) if low <= high else ("", "", "")
        zeros, nans, infinities = map(int, counts)
        self._told = Summary(*bounds, zeros, nans, infinities, tuple(map(numeral, cells)), shape, kept)
        self._figures = self._copy = None


class Summaries:
    """What one Recording keeps of tensors that are too big to be shown."""

    def __init__(self) -> None:
        self._kept: deque[SummaryDraft] = deque()
        self._size_bytes = 0

    def look(self, tensor: torch.Tensor) -> SummaryDraft | None:
        """Its Summary; None where it has no numbers that compare, or they can't be had without waiting."""
        if not _torch.has_numbers(tensor) or not tensor.numel() or tensor.is_complex():
            return None
        if tensor.device.type != "cpu" and not runs_ahead(tensor):
            return None
        try:
            draft = SummaryDraft(tensor)
        except (RuntimeError, NotImplementedError):  # a dtype without an order, a batch inside vmap
            return None
        self._kept.append(draft)
        self._size_bytes += draft.size_bytes
        while self._size_bytes > BUDGET_BYTES:
            oldest = self._kept.popleft()
            self._size_bytes -= oldest.size_bytes
            oldest.give_way()
        return draft


def figures(numbers: torch.Tensor) -> torch.Tensor:
    """Low, high and norm of the finite numbers, how many are 0, NaN and infinite, then of each stretch the number
    furthest from 0: all where the tensor lies.

    >>> figures(torch.tensor([3.0, -4.0, 0.0, float("nan")])).tolist()
    [-4.0, 3.0, 5.0, 1.0, 1.0, 0.0, 3.0, -4.0, 0.0, nan]
    """
    wide = torch.float32 if numbers.device.type == "mps" else torch.float64
    flat = numbers.reshape(-1)
    if not flat.is_floating_point() or flat.element_size() == 1:
        flat = flat.to(wide)
    count = flat.numel()
    bounds, sound = torch.stack(torch.aminmax(flat)), flat
    broken = torch.zeros(2, dtype=wide, device=flat.device)
    if flat.device.type != "cpu" or not bool(bounds.isfinite().all()):  # only the CPU is asked: nobody waits
        finite = flat.isfinite()
        sound = torch.where(finite, flat, 0.0)
        edge = torch.full_like(flat[:1], math.inf)
        bounds = torch.stack([torch.where(finite, flat, edge).amin(), torch.where(finite, flat, -edge).amax()])
        broken = torch.stack([flat.isnan().sum(), flat.isinf().sum()]).to(wide)
    norm = torch.linalg.vector_norm(sound, dtype=wide).reshape(1)
    zeros = (count - torch.count_nonzero(flat)).reshape(1).to(wide)
    return torch.cat([bounds.to(wide), norm, zeros, broken, _peaks(flat).to(wide)])


def _peaks(flat: torch.Tensor) -> torch.Tensor:
    """Of each of at most CELLS stretches the number furthest from 0; NaN where it holds one."""
    length = math.ceil(flat.numel() / CELLS)
    cells = math.ceil(flat.numel() / length)
    even = torch.nn.functional.pad(flat, (0, cells * length - flat.numel())).view(cells, length)
    low, high = even.amin(1), even.amax(1)
    return torch.where(high >= -low, high, low)


def corner(numbers: torch.Tensor) -> torch.Tensor:
    """The beginning of a tensor in each dimension.

    >>> tuple(corner(torch.zeros(5, 3, 100, 8)).shape), tuple(corner(torch.zeros(9999)).shape)
    ((2, 3, 16, 8), (1024,))
    """
    room = WHOLE // 4
    for dimension in reversed(range(numbers.dim())):
        longest = room if numbers.dim() == 1 else CORNER if dimension >= numbers.dim() - 2 else room
        side = max(1, min(numbers.shape[dimension], longest, room))
        numbers, room = numbers.narrow(dimension, 0, side), room // side
    return numbers


def fetch_summaries(drafts: Iterable[SummaryDraft], numeral: Numeral) -> None:
    """Read what is still awaited, all of a device and dtype at once: here the host waits."""
    awaited = [(draft, draft.awaited()) for draft in dict.fromkeys(drafts)]
    groups: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
    for tensor in (tensor for _, tensors in awaited for tensor in tensors):
        groups.setdefault((tensor.device, tensor.dtype), []).append(tensor)
    read: dict[int, list[Any]] = {}
    for group in groups.values():
        with contextlib.suppress(RuntimeError):  # the device is gone: nothing is shown
            values = iter(torch.cat([tensor.reshape(-1) for tensor in group]).tolist())
            read.update({id(tensor): list(islice(values, tensor.numel())) for tensor in group})
    for draft, tensors in awaited:
        draft.tell([read[id(tensor)] for tensor in tensors if id(tensor) in read], numeral)


Look = Callable[[torch.Tensor], SummaryDraft | None]
"""How a Frame sees what is too big for it; a Recording without such numbers has none."""


# -- indices that name one place several times

MOST_INDICES = 20_000
PUTS = frozenset({"__setitem__", "index_copy", "index_copy_", "scatter", "scatter_"})
"""Calls that put rows to where an index says; of those with the same index one stays."""


def put_twice(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """So many rows with a graph are put where another one lands, at several places; 0 where none or one is.

    A single such place may be where what isn't wanted is put. A device isn't asked.
    """
    names = ("self", "at", "source") if op == "__setitem__" else ("self", "dim", "index", "source")
    given = dict(zip(names, args, strict=False)) | kwargs
    source, at = given.get("source", given.get("src")), _places(op, given)
    if at is None or not isinstance(source, torch.Tensor) or not source.requires_grad or "reduce" in given:
        return 0
    if at.shape[-1] > MOST_INDICES or source.numel() < at.shape[-1]:  # one number or row for all loses nothing
        return 0
    _, counts = torch.unique(at, dim=1, return_counts=True)
    several = counts[counts > 1]
    return int(several.sum()) if several.numel() > 1 else 0


def _places(op: str, given: dict[str, Any]) -> torch.Tensor | None:
    """The indices, a column for each place; of a scatter the first of its rows. None for masks, or slices alone."""
    index = given.get("at" if op == "__setitem__" else "index")
    parts = index if isinstance(index, tuple) else (index,)
    tensors = [each for each in parts if isinstance(each, torch.Tensor)]
    plain = all(type(each) is torch.Tensor and each.device.type == "cpu" for each in tensors)
    if not tensors or not plain or any(each.dtype == torch.bool or not each.dim() for each in tensors):
        return None
    if op.startswith("scatter"):
        dim = given.get("dim", 0)
        return tensors[0].movedim(dim, -1).reshape(-1, tensors[0].shape[dim])[:1]
    try:
        same = torch.broadcast_tensors(*tensors)  # type: ignore[no-untyped-call]  # torch gives it no types
    except RuntimeError:  # it will refuse the index, too
        return None
    return torch.stack([each.reshape(-1) for each in same])
