"""torch's own kinds of values: tensors, which both sides share, bare numbers, dtypes, devices, sizes."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils.data
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

from nbjudge.bridge.around.parts import BASES, BY_METHOD
from nbjudge.bridge.torch import torch_private
from nbjudge.bridge.torch.mirror import DTYPES, NAMES
from nbjudge.bridge.values.table import ROUNDING, Decoder, Encoder, Tree, ValueKind, known
from nbjudge.errors import WireError
from nbjudge.wire import listed, text, whole

TENSORS = "tensors"  # the part of a packet that they are


class Bare:
    """A tensor whose values alone are to travel."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _tensor(value: Tensor, encode: Encoder) -> Any:
    return {"t": "tensor", "id": encode.crossing.parts[TENSORS].share(value)}


def _tensor_heard(tree: Tree, decode: Decoder) -> Any:
    return decode.crossing.parts[TENSORS].mirror.ledger.tensor(whole(tree, "id"))


def _bare(value: Bare, encode: Encoder) -> Any:
    return encode.crossing.parts[TENSORS].data(value.tensor)


def _bare_heard(tree: Tree, decode: Decoder) -> Any:
    return decode.crossing.parts[TENSORS].mirror.read_data(tree, decode.crossing.body.data)


def _lacks_numbers(value: Tensor) -> bool:
    """Is one of its numbers NaN or infinite? Whoever watches a test look at them doesn't see it."""
    with torch_private.unseen(), torch.no_grad():
        if value.layout is not torch.strided or not (value.is_floating_point() or value.is_complex()):
            return False
        return not bool(torch.isfinite(value).all())


def _is_unreal(value: Tensor) -> bool:
    """Has one of its numbers an imaginary part that is no matter of rounding?"""
    with torch_private.unseen(), torch.no_grad():
        if value.layout is not torch.strided or not value.is_complex():
            return False
        return bool((value.imag.abs() > ROUNDING * value.abs()).any())


def _truths(value: Tensor) -> set[bool]:
    """Of several."""
    with torch_private.unseen(), torch.no_grad():
        if value.layout is not torch.strided or value.dtype != torch.bool or not value.dim() or not value.numel():
            return set()
        return {bool(value.any()), bool(value.all())}


def _look(value: Tensor) -> bytes:
    with torch_private.unseen(), torch.no_grad():
        return repr(value.detach()).encode()


def _dtype_heard(tree: Tree, _decode: Decoder) -> torch.dtype:
    if (name := text(tree, "v")) not in DTYPES:
        raise WireError("A dtype has no known name.")
    return DTYPES[name]


def _device_heard(tree: Tree, _decode: Decoder) -> torch.device:
    try:
        return torch.device(text(tree, "v"))
    except (RuntimeError, ValueError):
        raise WireError("A device has no known name.") from None


def _size_heard(tree: Tree, _decode: Decoder) -> torch.Size:
    sizes = listed(tree, "v", 64)
    if any(type(size) is not int or not 0 <= size < 1 << 40 for size in sizes):
        raise WireError("A size isn't made of whole numbers.")
    return torch.Size(sizes)


def _is_dtype(value: Any) -> bool:
    return type(value) is torch.dtype and value in NAMES


for _kind in (
    ValueKind(
        "tensor",
        (Tensor,),
        _tensor,
        _tensor_heard,
        subclasses=True,
        watched=True,
        lacks=_lacks_numbers,
        unreal=_is_unreal,
        truths=_truths,
        look=_look,
    ),
    ValueKind("data", (Bare,), _bare, _bare_heard, watched=True),
    ValueKind("dtype", (), lambda value, _encode: {"t": "dtype", "v": NAMES[value]}, _dtype_heard, takes=_is_dtype),
    ValueKind("device", (torch.device,), lambda value, _encode: {"t": "device", "v": str(value)}, _device_heard),
    ValueKind("size", (torch.Size,), lambda value, _encode: {"t": "size", "v": list(map(int, value))}, _size_heard),
):
    known(_kind)
BASES.extend((torch.nn.Module, torch.optim.Optimizer, LRScheduler))
BASES.extend((torch.utils.data.Dataset, torch.utils.data.Sampler, torch.utils.data.DataLoader))
BY_METHOD["Function"] = (torch.autograd.Function, "apply")
