"""Dates, times and spans of time: by what `isoformat` says, made again by their own constructors.

The worked example of a kind: this file is all that makes them cross.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from typing import Any

from nbjudge.bridge.values.table import Decoder, Encoder, Tree, UnsupportedError, ValueKind, known, parts_of
from nbjudge.errors import WireError
from nbjudge.wire import text, whole

CHARS = 64
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z][A-Za-z0-9_+-]*){0,2}", re.ASCII)


def _said(value: Any, encode: Encoder) -> Any:
    """A zone without a name is said as the offset that it has at this moment; `fold` isn't needed any more then."""
    kind: Any = next(kind for kind in type(value).__mro__ if kind in _KINDS.values())
    zone = None if kind is datetime.date else value.tzinfo
    named = type(zone) is zoneinfo.ZoneInfo and bool(_KEY.fullmatch(zone.key or ""))
    said = kind.isoformat(kind.replace(value, tzinfo=None) if named else value)
    if len(said) > CHARS:
        raise UnsupportedError(f"a {kind.__name__} that says {said[:CHARS]}")
    tree = {"t": kind.__name__, "v": said}
    return tree | ({"zone": encode(zone), "fold": value.fold} if named else {})


def _place(zone: zoneinfo.ZoneInfo, _encode: Encoder) -> Any:
    if not _KEY.fullmatch(zone.key or ""):
        raise UnsupportedError("a time zone without a name")
    return {"t": "zone", "v": zone.key}


def _place_heard(tree: Tree, _decode: Decoder) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(said if _KEY.fullmatch(said := text(tree, "v")) else "")
    except (OSError, ValueError, KeyError):
        raise WireError("A time zone isn't one.") from None


def _heard(tree: Tree, decode: Decoder) -> Any:
    kind = _KINDS[text(tree, "t")]
    try:
        made = kind.fromisoformat(text(tree, "v", CHARS))
        if "zone" not in tree:
            return made
        return made.replace(tzinfo=decode(tree["zone"]), fold=whole(tree, "fold", 0, 1))
    except TypeError:
        raise WireError(f"A {kind.__name__} has no zone.") from None
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
known(ValueKind("zone", (zoneinfo.ZoneInfo,), _place, _place_heard))
known(ValueKind("timezone", (datetime.timezone,), _zone, _zone_heard))
