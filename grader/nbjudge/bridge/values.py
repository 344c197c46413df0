"""Python values as JSON trees and back, exactly typed; what isn't a plain value is asked of the two `other` functions.

A tree is a JSON scalar, or an object with a kind `t`.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any

from nbjudge.errors import WireError
from nbjudge.wire import listed, text

DEPTH = 24
WHOLE_BITS = 4096
TEXT_CHARS = 4 << 20

Encode = Callable[[Any], Any]
Other = Callable[[Any, Encode], Any]  # a value that isn't plain, and how to encode what it holds
OtherTree = Callable[[Mapping[str, Any], Encode], Any]


class UnsupportedError(BaseException):
    """A value can't be carried to the other process. Not an Exception, so that a test's `except` doesn't hide it."""


def encode(value: Any, other: Other, depth: int = DEPTH) -> Any:
    """`value` as a tree; a number or text of a subclass travels as that plain type.

    Raises:
        UnsupportedError: nested too deep, or larger than what is carried.

    >>> encode((1, (2.5, None)), other=repr)
    {'t': 'tuple', 'v': [1, {'t': 'tuple', 'v': [2.5, None]}]}
    """
    if depth == 0:
        raise UnsupportedError(f"a value that is nested deeper than {DEPTH} levels")

    def inner(item: Any) -> Any:
        return encode(item, other, depth - 1)

    for kind, form in _SCALARS:
        if isinstance(value, kind):
            return form(value, inner)
    exact = _EXACT.get(type(value))
    return exact(value, inner) if exact is not None else other(value, inner)


def decode(tree: Any, other: OtherTree) -> Any:
    """The value that `tree` stands for; depth is bounded by the frame's own bound.

    Raises:
        WireError: it isn't a tree of ours.

    >>> decode({"t": "tuple", "v": [1, {"t": "float", "v": "nan"}]}, other=dict)
    (1, nan)
    """
    if tree is None or type(tree) in (bool, int, float, str):
        return tree
    if type(tree) is not dict:
        raise WireError("A value isn't one of the kinds that are carried.")

    def inner(item: Any) -> Any:
        return decode(item, other)

    form = _KINDS.get(text(tree, "t"))
    return other(tree, inner) if form is None else form(tree, inner)


def _encode_none(_value: None, _encode: Encode) -> Any:
    return None


def _encode_bool(value: bool, _encode: Encode) -> Any:
    return bool(value)


def _encode_int(value: int, _encode: Encode) -> Any:
    whole = int.__int__(value)
    if whole.bit_length() > WHOLE_BITS:
        raise UnsupportedError(f"a whole number of more than {WHOLE_BITS} bits")
    return whole


def _encode_float(value: float, _encode: Encode) -> Any:
    number = float.__float__(value)
    return number if math.isfinite(number) else {"t": "float", "v": repr(number)}


def _encode_str(value: str, _encode: Encode) -> Any:
    if len(value) > TEXT_CHARS:
        raise UnsupportedError(f"a text of more than {TEXT_CHARS} characters")
    return str.__str__(value)


def _encode_complex(value: complex, _encode: Encode) -> Any:
    return {"t": "complex", "v": [_encode_float(value.real, _encode), _encode_float(value.imag, _encode)]}


def _encode_bytes(value: bytes, _encode: Encode) -> Any:
    if len(value) > TEXT_CHARS:
        raise UnsupportedError(f"more than {TEXT_CHARS} bytes in one object")
    return {"t": "bytes", "v": base64.b64encode(value).decode()}


def _encode_slice(value: slice, encode: Encode) -> Any:
    return {"t": "slice", "v": [encode(part) for part in (value.start, value.stop, value.step)]}


def _sequence(kind: str) -> Callable[[Any, Encode], Any]:
    return lambda value, encode: {"t": kind, "v": [encode(item) for item in value]}


_SCALARS: tuple[tuple[Any, Callable[[Any, Encode], Any]], ...] = (
    (type(None), _encode_none),
    (bool, _encode_bool),
    (int, _encode_int),
    (float, _encode_float),
    (str, _encode_str),
    (complex, _encode_complex),
    (bytes, _encode_bytes),
)
_EXACT: Mapping[type, Callable[[Any, Encode], Any]] = {
    type(Ellipsis): lambda _value, _encode: {"t": "ellipsis"},
    type(NotImplemented): lambda _value, _encode: {"t": "not implemented"},
    range: lambda value, _encode: {"t": "range", "v": [value.start, value.stop, value.step]},
    slice: _encode_slice,
    tuple: _sequence("tuple"),
    frozenset: _sequence("frozenset"),
}


def _decode_float(tree: Mapping[str, Any], _decode: Encode) -> float:
    said = text(tree, "v")
    if said not in ("nan", "inf", "-inf"):
        raise WireError(f"{said!r} isn't a float that JSON can't say.")
    return float(said)


def _decode_complex(tree: Mapping[str, Any], decode: Encode) -> complex:
    parts = [decode(part) for part in listed(tree, "v", 2)]
    if len(parts) != 2 or any(type(part) is not float for part in parts):
        raise WireError("A complex number isn't made of two floats.")
    return complex(*parts)


def _decode_bytes(tree: Mapping[str, Any], _decode: Encode) -> bytes:
    try:
        return base64.b64decode(text(tree, "v", 2 * TEXT_CHARS), validate=True)
    except (binascii.Error, ValueError):
        raise WireError("Bytes aren't in base64.") from None


def _decode_range(tree: Mapping[str, Any], _decode: Encode) -> range:
    parts = listed(tree, "v", 3)
    if len(parts) != 3 or any(type(part) is not int for part in parts) or parts[2] == 0:
        raise WireError("A range isn't made of start, stop and step.")
    return range(*parts)


def _decode_slice(tree: Mapping[str, Any], decode: Encode) -> slice:
    parts = [decode(part) for part in listed(tree, "v", 3)]
    if len(parts) != 3:
        raise WireError("A slice isn't made of start, stop and step.")
    return slice(*parts)


def _decode_sequence(tree: Mapping[str, Any], decode: Encode) -> Any:
    items = [decode(item) for item in listed(tree, "v")]
    return tuple(items) if tree["t"] == "tuple" else frozenset(map(key, items))


def key(value: Any) -> Any:
    """What a dict or a set may hold; WireError for a value without a hash."""
    try:
        hash(value)
    except TypeError:
        raise WireError("A key of a dict, or an item of a set, can't be one.") from None
    return value


_KINDS: Mapping[str, Callable[[Mapping[str, Any], Encode], Any]] = {
    "float": _decode_float,
    "complex": _decode_complex,
    "bytes": _decode_bytes,
    "ellipsis": lambda _tree, _decode: Ellipsis,
    "range": _decode_range,
    "slice": _decode_slice,
    "not implemented": lambda _tree, _decode: NotImplemented,
    "tuple": _decode_sequence,
    "frozenset": _decode_sequence,
}
