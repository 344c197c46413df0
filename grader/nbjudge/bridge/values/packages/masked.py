"""NumPy's masked arrays: the items, which of them are masked, and what they are filled with."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from nbjudge.bridge.values import arrays
from nbjudge.bridge.values.memories import plain, write
from nbjudge.bridge.values.shared import InPlace, share
from nbjudge.bridge.values.table import Decoder, Encoder, Tree, ValueKind, known
from nbjudge.errors import WireError


def is_masked_array(value: Any) -> bool:
    """A masked array with a dtype that is carried."""
    return arrays.is_masked(value) and arrays.is_carried(plain(value).dtype) and not _is_the_constant(value)


def has_masked(value: Any) -> bool:
    """Is an item of it masked? Then whatever is said of it holds of that one."""
    return _is_the_constant(value) or (is_masked_array(value) and bool(_mask(value).any()))


def mask_of(value: Any) -> bytes:
    """What tells which of its items are masked."""
    if _is_the_constant(value):
        return b"masked"
    return repr(value.shape).encode() + bytes(sys.modules["numpy"].packbits(_mask(value)).tobytes())


def _ma() -> Any:
    return importlib.import_module("numpy.ma")


def _is_the_constant(value: Any) -> bool:
    return arrays.is_masked(value) and value is _ma().masked


def _mask(value: Any) -> Any:
    return plain(_ma().getmaskarray(value))


def _said(value: Any, encode: Encoder) -> dict[str, Any]:
    fill, masked = sys.modules["numpy"].asarray(value.fill_value, plain(value).dtype), value.mask is not _ma().nomask
    return {
        "data": arrays.placed(value, encode),
        "mask": arrays.said(_mask(value), encode) if masked else None,
        "fill": arrays.said(fill, encode),
        "hard": bool(value.hardmask),
    }


def _fill(value: Any, tree: Tree, decode: Decoder) -> Any:
    told = tree.get("v")
    if type(told) is not dict:
        raise WireError("A masked array isn't made of its parts.")
    data = arrays.filled(None if value is None else plain(value), tree.get("id"), told.get("data"), decode)
    mask, fill = told.get("mask"), arrays.heard(told.get("fill"), decode)
    mask = _ma().nomask if mask is None else arrays.heard(mask, decode)
    if (mask is not _ma().nomask and (mask.dtype.kind, mask.shape) != ("b", data.shape)) or fill.shape != ():
        raise WireError("A mask doesn't fit its array.")
    made = _ma().MaskedArray(data, copy=False) if value is None else value
    made.soften_mask()
    made.mask = mask
    if fill.dtype != data.dtype:
        raise WireError("A masked array is filled with something else.")
    made.fill_value = fill[()]
    if told.get("hard") is True:
        made.harden_mask()
    return made


def put(value: Any, before: Any) -> None:
    """Make a masked array again what it was: its items, mask, fill value, and whether what is masked stays so."""
    value.soften_mask()
    write(plain(value), plain(before))
    value.mask = before.mask
    value.fill_value = before.fill_value
    if before.hardmask:
        value.harden_mask()


def _looks(value: Any) -> bytes:
    return bytes(plain(value).tobytes() + _mask(value).tobytes())


share("masked array", (), InPlace(_said, _fill, _looks), is_masked_array)
known(
    ValueKind(
        "masked",
        (),
        lambda _value, _encode: {"t": "masked"},
        lambda _tree, _decode: _ma().masked,
        takes=_is_the_constant,
    )
)
