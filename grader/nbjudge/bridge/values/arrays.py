"""NumPy's arrays, which both sides may change in place, and its numbers: bytes and a dtype. NumPy may be missing.

Where an array's items lie beside others' is told with it (`memories.py`), so a view is a view over there.
"""

from __future__ import annotations

import importlib
import math
import re
import sys
from typing import Any

from nbjudge.bridge.values.memories import Memories, follow, plain
from nbjudge.bridge.values.shared import InPlace, share
from nbjudge.bridge.values.table import (
    ITEMS,
    STORAGE_BYTES,
    Decoder,
    Encoder,
    Tree,
    UnsupportedError,
    ValueKind,
    known,
    whole_numbers,
)
from nbjudge.errors import WireError
from nbjudge.wire import listed, text, whole

NUMBERS = frozenset(
    {
        *("float16", "float32", "float64", "complex64", "complex128", "bool"),
        *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    }
)
MOST = 1 << 16  # items of an array whose items cross one by one
MIXED = re.compile(r"O\d*|[US]\d{1,5}")
TIMES = re.compile(r"(datetime|timedelta)64(\[(Y|M|W|D|h|m|s|ms|us|ns)\])?")


def _numpy() -> Any:
    return sys.modules["numpy"]


def is_carried(dtype: Any) -> bool:
    """Do arrays of it cross as bytes?"""
    return dtype.name in NUMBERS or bool(TIMES.fullmatch(dtype.name))


def is_array(value: Any) -> bool:
    """An array of NumPy's, or a matrix, with a dtype that is carried."""
    return _is_any(value) and not is_masked(value) and is_carried(plain(value).dtype)


def _is_any(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(type(value), numpy.ndarray)


def is_masked(value: Any) -> bool:
    """Is it an array of which items may be masked?"""
    return _is_any(value) and "numpy.ma" in sys.modules and issubclass(type(value), _numpy().ma.MaskedArray)


def _is_dtype(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.dtype) and is_carried(value)


def _dtype_heard(tree: Tree, _decode: Decoder) -> Any:
    if (name := text(tree, "v")) not in NUMBERS and not TIMES.fullmatch(name):
        raise WireError("A dtype of NumPy's has no known name.")
    return importlib.import_module("numpy").dtype(name)


def is_number(value: Any) -> bool:
    """A number, a truth value or a time of NumPy's."""
    numpy = sys.modules.get("numpy")
    here = type(value)
    return (
        numpy is not None and issubclass(here, numpy.generic) and here.__module__ == "numpy" and is_carried(value.dtype)
    )


def said(value: Any, encode: Encoder) -> dict[str, Any]:
    """Where an array's bytes lie in the body, and what they are."""
    value = plain(value)
    if value.size > ITEMS or value.nbytes > STORAGE_BYTES:
        raise UnsupportedError(f"an array of more than {ITEMS} items or {STORAGE_BYTES >> 20} MiB")
    native = value.astype(value.dtype.newbyteorder("="), copy=False)
    start = encode.crossing.body.put(native.tobytes())
    return {"dtype": value.dtype.name, "shape": list(value.shape), "start": start, "size_bytes": value.nbytes}


def heard(tree: Any, decode: Decoder) -> Any:
    """The array of these bytes; WireError where they aren't as many as its shape says."""
    shape, name = whole_numbers(tree, "shape"), text(tree, "dtype")
    if name not in NUMBERS and not TIMES.fullmatch(name):
        raise WireError("An array has no known dtype.")
    numpy = importlib.import_module("numpy")
    dtype = numpy.dtype(name)
    if math.prod(shape) > ITEMS or math.prod(shape) * dtype.itemsize != whole(tree, "size_bytes", 0, STORAGE_BYTES):
        raise WireError("An array isn't as large as its shape.")
    data = decode.crossing.body.take(whole(tree, "start"), whole(tree, "size_bytes"))
    if name == "bool":
        data = bytes(map(bool, data))
    return numpy.frombuffer(data, dtype=dtype).reshape(shape).copy()


def placed(value: Any, encode: Encoder) -> dict[str, Any]:
    """The same of a shared array, with where it lies, and what may not be written."""
    array, shared = plain(value), encode.crossing.shared
    number = shared.number_of(value)
    place = {} if number is None else shared.memories.said(array, number)
    return said(array, encode) | place | ({} if array.flags.writeable else {"read_only": True})


def _matrix_too(value: Any, encode: Encoder) -> dict[str, Any]:
    return placed(value, encode) | ({"matrix": True} if issubclass(type(value), _numpy().matrix) else {})


def filled(array: Any, number: Any, told: Any, decode: Decoder) -> Any:
    """A shared array with these items, a new one where there is none yet; WireError where they don't fit."""
    new, memories = heard(told, decode), decode.crossing.shared.memories
    if array is not None:
        _refill(array, new, number, memories)
        return array
    if type(number) is int:
        new = memories.made(told, new, number) if "memory" in told or "storage" in told else new
        new.flags.writeable = new.flags.writeable and told.get("read_only") is not True
    return new


def _fill(array: Any, tree: Tree, decode: Decoder) -> Any:
    told = tree.get("v")
    made = filled(None if array is None else plain(array), tree.get("id"), told, decode)
    if array is not None or type(told) is not dict or told.get("matrix") is not True:
        return made if array is None else array
    if made.ndim != len("ij"):
        raise WireError("A matrix hasn't rows and columns.")
    return made.view(_numpy().matrix)


def _refill(array: Any, new: Any, number: int, memories: Memories) -> None:
    """What is read-only over there may change here by what shares its memory; what is so here stays as it is."""
    if array.flags.writeable or memories.is_ours(number):
        _filled(array, new)
    elif new.shape != array.shape or new.dtype != array.dtype:
        raise WireError("An array has changed its shape or type.")
    else:
        follow(array, new)


def _filled(array: Any, new: Any) -> Any:
    if array is None:
        return new
    if new.shape != array.shape or new.dtype != array.dtype:
        raise WireError("An array has changed its shape or type.")
    if not array.flags.writeable:
        if plain(array).tobytes() != new.tobytes():
            raise UnsupportedError("a read-only array that was written to")
        return array
    array[...] = new
    return array


def _number(value: Any, encode: Encoder) -> dict[str, Any]:
    """A number by Python's own of the same value, so that a long list of them stays short; a time by its bytes."""
    if value.dtype.name in NUMBERS:
        return {"t": "scalar", "dtype": value.dtype.name, "v": encode(value.item())}
    return {"t": "scalar", "dtype": value.dtype.name, "at": said(_numpy().asarray(value), encode)}


def _number_heard(tree: Tree, decode: Decoder) -> Any:
    name, array = text(tree, "dtype"), None
    if name not in NUMBERS:
        array = heard(tree.get("at"), decode)
    elif type(number := decode(tree.get("v"))) in (bool, int, float, complex):
        array = _as(name, number)
    if array is None or array.size != 1:
        raise WireError("A number of NumPy's isn't one.")
    return array.reshape(-1)[0]


def _as(name: str, number: complex) -> Any:
    numpy = importlib.import_module("numpy")
    try:
        with numpy.errstate(all="ignore"):
            return numpy.array(number, dtype=name)
    except (TypeError, ValueError, OverflowError):
        raise WireError(f"A number of NumPy's isn't a {name}.") from None


# ---------------------------------------------------------------------- arrays of texts, and of anything


def is_mixed(value: Any) -> bool:
    """An array of texts, bytes or Python's own things."""
    return _is_any(value) and not is_masked(value) and bool(MIXED.fullmatch(value.dtype.str[1:]))


def _mixed(value: Any, encode: Encoder) -> dict[str, Any]:
    """Its items, which cross each by itself."""
    if value.size > MOST:
        raise UnsupportedError(f"an array of more than {MOST} texts or objects")
    items = plain(value).ravel().tolist()
    return {"dtype": value.dtype.str[1:], "shape": list(value.shape), "v": [*map(encode, items)]}


def _fill_mixed(array: Any, tree: Tree, decode: Decoder) -> Any:
    return _filled(array, _mixed_heard(tree.get("v"), decode))


def _mixed_heard(tree: Any, decode: Decoder) -> Any:
    shape, name, items = whole_numbers(tree, "shape"), text(tree, "dtype"), listed(tree, "v")
    if math.prod(shape) != len(items) or not MIXED.fullmatch(name):
        raise WireError("An array isn't as large as its shape, or has no known dtype.")
    array = importlib.import_module("numpy").empty(len(items), dtype="O" if name[0] == "O" else name)
    wanted = {"U": str, "S": bytes, "O": object}[name[0]]
    for at, item in enumerate(map(decode, items)):
        if not isinstance(item, wanted):
            raise WireError("An item of an array isn't of its dtype.")
        array[at] = item
    return array.reshape(shape)


share(
    "array",
    (),
    InPlace(_matrix_too, _fill, lambda array: plain(array).tobytes(), last=lambda array: not array.flags.writeable),
    takes=is_array,
)
share("mixed", (), InPlace(_mixed, _fill_mixed, lambda array: plain(array).tobytes()), takes=is_mixed)
known(ValueKind("npdtype", (), lambda value, _encode: {"t": "npdtype", "v": value.name}, _dtype_heard, takes=_is_dtype))
known(ValueKind("scalar", (), _number, _number_heard, takes=is_number))
