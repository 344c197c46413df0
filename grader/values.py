"""Python values as JSON trees and back, exactly typed; what isn't a plain value is asked of the two `other` functions.

A tree is a JSON scalar, a JSON list (a Python list), or an object with a kind `t` (everything else).
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any

from .errors import WireError
from .wire import listed, text

DEPTH = 24
WHOLE_BITS = 4096
TEXT_CHARS = 4 << 20

Encode = Callable[[Any], Any]
Decode = Callable[[Mapping[str, Any]], Any]


class UnsupportedError(BaseException):
    """A value can't be carried to the other process. Not an Exception, so that a test's `except` doesn't hide it."""


def encode(value: Any, other: Encode, depth: int = DEPTH) -> Any:
    """`value` as a tree; an instance of a subclass of a plain type travels as that plain type.

    Raises:
        UnsupportedError: nested too deep, or larger than what is carried.

    >>> encode([1, (2.5, None)], other=repr)
    [1, {'t': 'tuple', 'v': [2.5, None]}]
    """
    if depth == 0:
        raise UnsupportedError(f"a value that is nested deeper than {DEPTH} levels (or contains itself)")
    for kind, form in _FORMS:
        if isinstance(value, kind):
            return form(value, lambda item: encode(item, other, depth - 1))
    return other(value)


def decode(tree: Any, other: Decode) -> Any:
    """The value that `tree` stands for; depth is bounded by the frame's own bound.

    Raises:
        WireError: it isn't a tree of ours.

    >>> decode({"t": "tuple", "v": [1, {"t": "float", "v": "nan"}]}, other=dict)
    (1, nan)
    """
    if tree is None or type(tree) in (bool, int, float, str):
        return tree
    if type(tree) is list:
        return [decode(item, other) for item in tree]
    if type(tree) is not dict:
        raise WireError("A value isn't one of the kinds that are carried.")
    form = _KINDS.get(text(tree, "t"))
    return other(tree) if form is None else form(tree, lambda item: decode(item, other))


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


def _encode_dict(value: dict[Any, Any], encode: Encode) -> Any:
    pairs = [[_encode_key(key), encode(item)] for key, item in dict.items(value)]
    return {"t": "dict", "v": pairs}


def _sequence(kind: str) -> Callable[[Any, Encode], Any]:
    def form(value: Any, encode: Encode) -> Any:
        carry = encode if kind == "tuple" else _encode_key
        return {"t": kind, "v": [carry(item) for item in _BUILTIN[kind].__iter__(value)]}

    return form


def _encode_key(key: Any) -> Any:
    """Keys travel by value only: their equality must be Python's own."""
    return encode(key, _no_key)


def _no_key(key: Any) -> Any:
    raise UnsupportedError(f"a dict or set that holds a {type(key).__name__} as key")


def _encode_list(value: list[Any], encode: Encode) -> Any:
    return [encode(item) for item in list.__iter__(value)]


_BUILTIN: Mapping[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset}

_FORMS: tuple[tuple[Any, Callable[[Any, Encode], Any]], ...] = (
    (type(None), _encode_none),
    (bool, _encode_bool),
    (int, _encode_int),
    (float, _encode_float),
    (str, _encode_str),
    (complex, _encode_complex),
    (bytes, _encode_bytes),
    (type(Ellipsis), lambda _value, _encode: {"t": "ellipsis"}),
    (range, lambda value, _encode: {"t": "range", "v": [value.start, value.stop, value.step]}),
    (list, _encode_list),
    (dict, _encode_dict),
    *((_BUILTIN[kind], _sequence(kind)) for kind in _BUILTIN),
)


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


def _decode_dict(tree: Mapping[str, Any], decode: Encode) -> dict[Any, Any]:
    pairs = listed(tree, "v")
    if any(type(pair) is not list or len(pair) != 2 for pair in pairs):
        raise WireError("A dict isn't made of pairs.")
    decoded = [(_key(decode(key)), decode(item)) for key, item in pairs]
    return dict(decoded)


def _decode_sequence(tree: Mapping[str, Any], decode: Encode) -> Any:
    kind = text(tree, "t")
    items = [decode(item) for item in listed(tree, "v")]
    return _BUILTIN[kind](items if kind == "tuple" else [_key(item) for item in items])


def _key(value: Any) -> Any:
    """What a dict or a set may hold: plain values, whose equality is Python's own."""
    if value is None or type(value) in (bool, int, float, str, bytes, complex):
        return value
    if type(value) in (tuple, frozenset):
        for item in value:
            _key(item)
        return value
    raise WireError("A key of a dict, or an item of a set, isn't a plain value.")


_KINDS: Mapping[str, Callable[[Mapping[str, Any], Encode], Any]] = {
    "float": _decode_float,
    "complex": _decode_complex,
    "bytes": _decode_bytes,
    "ellipsis": lambda _tree, _decode: Ellipsis,
    "range": _decode_range,
    "dict": _decode_dict,
    "tuple": _decode_sequence,
    "set": _decode_sequence,
    "frozenset": _decode_sequence,
}
