"""Pillow's images, which both sides may change in place: their pixels as bytes. Never a file; Pillow may be missing."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from nbjudge.bridge.values.shared import InPlace, share
from nbjudge.bridge.values.table import ITEMS, STORAGE_BYTES, Decoder, Encoder, Tree, UnsupportedError, whole_numbers
from nbjudge.errors import WireError
from nbjudge.wire import listed, text, whole

MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "I;16"})
PALETTE = 768
FORMAT_CHARS = 16


def is_picture(value: Any) -> bool:
    """An image of Pillow's, or of a class derived from it, of a mode that is carried."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and issubclass(type(value), pillow.Image) and value.mode in MODES


def put(value: Any, state: Any) -> None:
    """Give an image the pixels and size of another."""
    _pillow().Image.__setstate__(value, _pillow().Image.__getstate__(state))


def _pillow() -> Any:
    return importlib.import_module("PIL.Image")


def _said(value: Any, encode: Encoder) -> dict[str, Any]:
    width, height = value.size
    if width * height > ITEMS:
        raise UnsupportedError(f"a picture of more than {ITEMS} pixels")
    try:
        _, mode, size, palette, pixels = _pillow().Image.__getstate__(value)
    except Exception:  # whatever Pillow says of a file that can't be read to its end
        raise UnsupportedError("a picture that can't be read") from None
    start = encode.crossing.body.put(pixels)
    said = {"mode": mode, "size": list(size), "start": start, "size_bytes": len(pixels), "palette": palette or []}
    return said | {"format": value.format if isinstance(value.format, str) else ""}


def _fill(value: Any, tree: Tree, decode: Decoder) -> Any:
    said = tree.get("v")
    if not isinstance(said, dict):
        raise WireError("A picture isn't an object.")
    mode, size = text(said, "mode"), whole_numbers(said, "size")
    palette = listed(said, "palette", PALETTE)
    if mode not in MODES or len(size) != 2 or size[0] * size[1] > ITEMS:
        raise WireError("A picture is of no kind that is carried.")
    if not all(type(part) is int and 0 <= part < 256 for part in palette) or len(palette) % 3:
        raise WireError("A picture has an impossible palette.")
    pixels = decode.crossing.body.take(whole(said, "start"), whole(said, "size_bytes", 0, STORAGE_BYTES))
    value = _pillow().new("L", (0, 0)) if value is None else value
    try:
        _pillow().Image.__setstate__(value, [{}, mode, tuple(size), palette, pixels])
    except Exception:  # whatever Pillow says of too few bytes, or too many
        raise WireError("A picture isn't as large as it says.") from None
    value.format = text(said, "format", FORMAT_CHARS) or None
    return value


def _looks(value: Any) -> bytes:
    _, mode, size, palette, pixels = _pillow().Image.__getstate__(value)
    return repr((mode, size, palette)).encode() + bytes(pixels)


share("picture", (), InPlace(_said, _fill, _looks), is_picture)
