"""Sparse tensors travel as what they are made of: places, values, shape. What requires a gradient does not."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from nbjudge.bridge.arrays import Bare
from nbjudge.bridge.torch import autograd as graph
from nbjudge.bridge.torch.records import DIMENSIONS, ITEM_BYTES, ITEMS
from nbjudge.bridge.values import UnsupportedError
from nbjudge.errors import WireError

LAYOUTS = {
    str(layout): layout
    for layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
}
BY_ROW = (torch.sparse_csr, torch.sparse_bsr)


def is_sparse(value: Any) -> bool:
    """A sparse tensor that is carried: on the CPU, of a bounded size, without a gradient."""
    return (
        type(value) is Tensor
        and str(value.layout) in LAYOUTS
        and not value.requires_grad
        and value.device.type == "cpu"
        and str(value.dtype).rpartition(".")[2] in ITEM_BYTES
        and value.numel() <= ITEMS
    )


def described(tensor: Tensor) -> tuple[Any, ...]:
    """What it is made of, as values that can be said."""
    coalesced = tensor.layout is not torch.sparse_coo or tensor.is_coalesced()
    return str(tensor.layout), tuple(map(int, tensor.shape)), coalesced, *map(Bare, _parts(tensor))


def made(told: Any) -> Tensor:
    """The tensor of what was said; WireError where there is no such tensor."""
    if type(told) is not tuple or len(told) < 5 or told[0] not in LAYOUTS:
        raise WireError("A sparse tensor isn't made of its parts.")
    layout, shape, coalesced, *parts = LAYOUTS[told[0]], *told[1:]
    if type(shape) is not tuple or len(shape) > DIMENSIONS or any(type(size) is not int for size in shape):
        raise WireError("A sparse tensor's shape isn't made of whole numbers.")
    if any(not isinstance(part, Tensor) for part in parts) or len(parts) != (2 if layout is torch.sparse_coo else 3):
        raise WireError("A sparse tensor isn't made of its parts.")
    if any(part.dtype not in (torch.int32, torch.int64) for part in parts[:-1]):
        raise WireError("A sparse tensor's places aren't whole numbers.")
    try:
        found = _built(layout, shape, coalesced is True, parts)
    except (RuntimeError, TypeError, ValueError, IndexError):
        raise WireError("A sparse tensor contradicts itself.") from None
    if found.numel() > ITEMS:
        raise WireError(f"A sparse tensor has more than {ITEMS} items.")
    return found


def _built(layout: torch.layout, shape: tuple[int, ...], coalesced: bool, parts: list[Tensor]) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls compressed layouts a beta
        if layout is torch.sparse_coo:
            given = True if coalesced else None
            where, items = parts
            return torch.sparse_coo_tensor(where, items, shape, is_coalesced=given, check_invariants=True)
        starts, places, items = parts
        return torch.sparse_compressed_tensor(starts, places, items, shape, layout=layout, check_invariants=True)


def snapshot(tensor: Tensor) -> bytes:
    """All that it holds, for comparison."""
    copies = [part.contiguous().clone() for part in _parts(tensor)]
    shapes = repr([tuple(part.shape) for part in copies]).encode()
    return shapes + b"".join(graph.storage_bytes(part.untyped_storage()) for part in copies)


def refill(tensor: Tensor, new: Tensor) -> None:
    """Take over in place what the other side has written."""
    if (tensor.layout, tensor.shape, tensor.dtype) != (new.layout, new.shape, new.dtype):
        raise WireError("A sparse tensor has become another one.")
    try:
        tensor.copy_(new)
    except RuntimeError:
        raise UnsupportedError("a sparse tensor whose places were changed in place") from None


def _parts(tensor: Tensor) -> tuple[Tensor, ...]:
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in BY_ROW:
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
