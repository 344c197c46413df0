"""Dates, times and spans of time: by what `isoformat` says, made again by their own constructors.

The worked example of a kind: this file is all that makes them cross.
"""

from __future__ import annotations

import datetime
from typing import Any

from nbjudge.bridge.values.table import Decoder, Encoder, Tree, UnsupportedError, ValueKind, known, parts_of
from nbjudge.errors import WireError
from nbjudge.wire import text

CHARS = 64


def _said(value: Any, _encode: Encoder) -> Any:
    """A zone of any class is said as the offset that it has at this moment; `fold` isn't needed any more then."""
    kind: Any = next(kind for kind in type(value).__mro__ if kind in _KINDS.values())
    said = kind.isoformat(value)
    if len(said) > CHARS:
        raise UnsupportedError(f"a {kind.__name__} that says {said[:CHARS]}")
    return {"t": kind.__name__, "v": said}


def _heard(tree: Tree, _decode: Decoder) -> Any:
    kind = _KINDS[text(tree, "t")]
    try:
        return kind.fromisoformat(text(tree, "v", CHARS))
    except ValueError:
        raise WireError(f"A {kind.__name__} isn't one.") from None


def _span(value: datetime.timedelta, _encode: Encoder) -> Any:
    return {"t": "timedelta", "v": [value.days, value.seconds, value.microseconds]}


def _span_heard(tree: Tree, decode: Decoder) -> datetime.timedelta:
    days, seconds, microseconds = parts_of(tree, (int, int, int), decode)
    try:
        return datetime.timedelta(days, seconds, microseconds)
    except OverflowError:
        raise WireError("A span of time is too long.") from None


def _zone(value: datetime.timezone, encode: Encoder) -> Any:
    return {"t": "timezone", "v": [encode(value.utcoffset(None))]}


def _zone_heard(tree: Tree, decode: Decoder) -> datetime.timezone:
    (offset,) = parts_of(tree, (datetime.timedelta,), decode)
    try:
        return datetime.timezone(offset)
    except ValueError:
        raise WireError("A time zone is too far away.") from None


_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (datetime.date, datetime.time, datetime.datetime)}
for _name, _kind in _KINDS.items():
    known(ValueKind(_name, (_kind,), _said, _heard, subclasses=True))
known(ValueKind("timedelta", (datetime.timedelta,), _span, _span_heard, subclasses=True))
known(ValueKind("timezone", (datetime.timezone,), _zone, _zone_heard))
