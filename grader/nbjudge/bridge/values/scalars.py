"""Numbers, texts, bytes, and Python's own constants: one value each, exactly typed."""

from __future__ import annotations

import base64
import binascii
import math
import pathlib
import re
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

from nbjudge.bridge.values.table import (
    WHOLE_BITS,
    Decoder,
    Encoder,
    Tree,
    UnsupportedError,
    ValueKind,
    known,
    parts_of,
)
from nbjudge.errors import WireError
from nbjudge.wire import listed, text

TEXT_CHARS = 4 << 20
DIGITS = 5000
PATH_CHARS = 4096  # a system's own bound
PATHS = {kind.__name__: kind for kind in (pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path()))}
_DECIMAL = re.compile(r"-?(\d+(\.\d+)?(E[+-]\d{1,6})?|Infinity|s?NaN\d*)")


def _whole(value: int, _encode: Encoder) -> int:
    whole = int.__int__(value)
    if whole.bit_length() > WHOLE_BITS:
        raise UnsupportedError(f"a whole number of more than {WHOLE_BITS} bits")
    return whole


def _number(value: float, _encode: Encoder) -> Any:
    number = float.__float__(value)
    return number if math.isfinite(number) else {"t": "float", "v": repr(number)}


def _number_heard(tree: Tree, _decode: Decoder) -> float:
    said = text(tree, "v")
    if said not in ("nan", "inf", "-inf"):
        raise WireError("A float isn't one of those that JSON can't say.")
    return float(said)


def _text(value: str, _encode: Encoder) -> str:
    if len(value) > TEXT_CHARS:
        raise UnsupportedError(f"a text of more than {TEXT_CHARS} characters")
    return str.__str__(value)


def _complex(value: complex, encode: Encoder) -> Any:
    return {
        "t": "complex",
        "v": [_number(part, encode) for part in (complex.real.__get__(value), complex.imag.__get__(value))],
    }


def _bytes(value: bytes | bytearray, _encode: Encoder) -> Any:
    if len(value) > TEXT_CHARS:
        raise UnsupportedError(f"more than {TEXT_CHARS} bytes in one object")
    name = "bytearray" if isinstance(value, bytearray) else "bytes"
    return {"t": name, "v": base64.b64encode(memoryview(value)).decode()}


def _bytes_heard(tree: Tree, _decode: Decoder) -> bytes:
    try:
        return base64.b64decode(text(tree, "v", 2 * TEXT_CHARS), validate=True)
    except (binascii.Error, ValueError):
        raise WireError("Bytes aren't in base64.") from None


def _range(tree: Tree, _decode: Decoder) -> range:
    parts = listed(tree, "v", 3)
    if len(parts) != 3 or any(type(part) is not int for part in parts) or parts[2] == 0:
        raise WireError("A range isn't made of start, stop and step.")
    return range(*parts)


def _slice(tree: Tree, decode: Decoder) -> slice:
    parts = [decode(part) for part in listed(tree, "v", 3)]
    if len(parts) != 3:
        raise WireError("A slice isn't made of start, stop and step.")
    return slice(*parts)


def _fraction(tree: Tree, decode: Decoder) -> Fraction:
    above, below = parts_of(tree, (int, int), decode)
    if below <= 0:
        raise WireError("A fraction's denominator isn't positive.")
    return Fraction(above, below)


def _decimal(value: Decimal, _encode: Encoder) -> Any:
    said = Decimal.__str__(value)
    if len(said) > DIGITS or not _DECIMAL.fullmatch(said):
        raise UnsupportedError(f"a decimal number of more than {DIGITS} digits")
    return {"t": "Decimal", "v": said}


def _decimal_heard(tree: Tree, _decode: Decoder) -> Decimal:
    said = text(tree, "v", DIGITS)
    if not said.isascii() or not _DECIMAL.fullmatch(said):
        raise WireError("A decimal number isn't one.")
    return Decimal(said)


def _uuid(tree: Tree, _decode: Decoder) -> uuid.UUID:
    try:
        return uuid.UUID(text(tree, "v", 36))
    except ValueError:
        raise WireError("A UUID isn't one.") from None


def _path(value: pathlib.PurePath, _encode: Encoder) -> Any:
    kind = next(kind for kind in reversed(PATHS.values()) if isinstance(value, kind))
    said = kind.__str__(value)
    if len(said) > PATH_CHARS:
        raise UnsupportedError(f"a path of more than {PATH_CHARS} characters")
    return {"t": "path", "of": kind.__name__, "v": said}


def _path_heard(tree: Tree, _decode: Decoder) -> pathlib.PurePath:
    kind = PATHS.get(text(tree, "of"))
    if kind is None:
        raise WireError("A path is of no known kind.")
    return kind(text(tree, "v", PATH_CHARS))


def _never(_tree: Tree, _decode: Decoder) -> Any:
    raise WireError("JSON says such a value by itself.")


for _kind in (
    ValueKind("None", (type(None),), lambda _value, _encode: None, _never),
    ValueKind("bool", (bool,), lambda value, _encode: bool(value), _never),
    ValueKind("int", (int,), _whole, _never, subclasses=True),
    ValueKind("float", (float,), _number, _number_heard, subclasses=True),
    ValueKind("str", (str,), _text, _never, subclasses=True),
    ValueKind(
        "complex",
        (complex,),
        _complex,
        lambda tree, decode: complex(*parts_of(tree, (float, float), decode)),
        subclasses=True,
    ),
    ValueKind("bytes", (bytes,), _bytes, _bytes_heard, subclasses=True),
    ValueKind(
        "bytearray", (bytearray,), _bytes, lambda tree, decode: bytearray(_bytes_heard(tree, decode)), snapshot=bytes
    ),
    ValueKind("ellipsis", (type(...),), lambda _value, _encode: {"t": "ellipsis"}, lambda _tree, _decode: ...),
    ValueKind(
        "not implemented",
        (type(NotImplemented),),
        lambda _value, _encode: {"t": "not implemented"},
        lambda _tree, _decode: NotImplemented,
    ),
    ValueKind(
        "range", (range,), lambda value, _encode: {"t": "range", "v": [value.start, value.stop, value.step]}, _range
    ),
    ValueKind(
        "slice",
        (slice,),
        lambda value, encode: {"t": "slice", "v": [encode(part) for part in (value.start, value.stop, value.step)]},
        _slice,
    ),
    ValueKind(
        "Fraction",
        (Fraction,),
        lambda value, encode: {"t": "Fraction", "v": [encode(value.numerator), encode(value.denominator)]},
        _fraction,
        subclasses=True,
    ),
    ValueKind("Decimal", (Decimal,), _decimal, _decimal_heard, subclasses=True),
    ValueKind("path", tuple(PATHS.values()), _path, _path_heard, subclasses=True),
    ValueKind("UUID", (uuid.UUID,), lambda value, _encode: {"t": "UUID", "v": str(value)}, _uuid, subclasses=True),
):
    known(_kind)
