"""Files in memory, `io.StringIO` and `io.BytesIO`, which both sides may write and read: what is in them, and where."""

from __future__ import annotations

import io
from typing import Any

from nbjudge.bridge.values.shared import InPlace, share
from nbjudge.bridge.values.table import Decoder, Encoder, Tree, UnsupportedError
from nbjudge.errors import WireError
from nbjudge.wire import text, whole

MOST = 8 << 20  # letters, or bytes
LINE_ENDS = (None, "", "\n", "\r", "\r\n")


def is_stream(value: Any) -> bool:
    """Is it a file in memory, or of a class derived from one?"""
    return issubclass(type(value), io.StringIO | io.BytesIO)


def content(value: Any) -> str | bytes | None:
    """All that is in one, by Python's own method, whatever its class has in its place; None where it is closed."""
    kind = _kind(value)
    return None if kind.closed.__get__(value) else kind.getvalue(value)


def is_read(value: Any) -> bool:
    """Does a file stand at its end?"""
    held = content(value) if is_stream(value) else None
    return held is not None and _kind(value).tell(value) >= len(held)


def copy_of(value: Any) -> Any:
    """Another one that holds the same and stands at the same place; a closed one is itself."""
    if content(value) is None:
        return value
    made = _kind(value)()
    made.__setstate__((*_kind(value).__getstate__(value)[:-1], None))
    return made


def put(value: Any, other: Any) -> None:
    """Let a file hold what another one holds, and stand where it stands."""
    if content(value) is not None and content(other) is not None:
        _kind(value).__setstate__(value, (*_kind(other).__getstate__(other)[:-1], None))


def _kind(value: Any) -> Any:
    return io.StringIO if issubclass(type(value), io.StringIO) else io.BytesIO


def _said(value: Any, encode: Encoder) -> dict[str, Any]:
    held = content(value)
    if held is None:
        return {"closed": True}
    if len(held) > MOST:
        raise UnsupportedError(f"a file in memory of more than {MOST >> 20} MB")
    place = {"closed": False, "at": int(_kind(value).tell(value))}
    if isinstance(held, str):
        return place | {"text": held, "ends": _kind(value).__getstate__(value)[1]}
    return place | {"bytes": encode(held)}


def _filled(value: Any, tree: Tree, decode: Decoder) -> Any:
    inner = tree.get("v")
    if not isinstance(inner, dict) or type(inner.get("closed")) is not bool:
        raise WireError("A file in memory isn't an object.")
    kind: Any = io.StringIO if text(tree, "t") == "StringIO" else io.BytesIO
    made: Any = kind() if value is None else value
    if inner["closed"]:
        kind.close(made)
    elif not kind.closed.__get__(made):  # what is closed here stays so
        kind.__setstate__(made, _state(kind, inner, decode))
    return made


def _state(kind: Any, inner: Tree, decode: Decoder) -> tuple[Any, ...]:
    """What Python keeps of one; a place beyond the end is one."""
    at = whole(inner, "at", 0, MOST)
    if kind is io.StringIO:
        if (ends := inner.get("ends")) not in LINE_ENDS:
            raise WireError("A file in memory ends its lines as none does.")
        return text(inner, "text", MOST), ends, at, None
    held = decode(inner.get("bytes"))
    if type(held) is not bytes or len(held) > MOST:
        raise WireError("A file in memory doesn't hold bytes.")
    return held, at, None


def _stands(value: Any) -> bytes:
    held = content(value)
    if held is None:
        return b"closed"
    at = b"%d " % _kind(value).tell(value)
    return at + (held.encode("utf-8", "surrogatepass") if isinstance(held, str) else held)


share("StringIO", (io.StringIO,), InPlace(_said, _filled, _stands))
share("BytesIO", (io.BytesIO,), InPlace(_said, _filled, _stands))
