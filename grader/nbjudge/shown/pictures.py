"""Pictures of untrusted origin: their bytes encoded anew, and none that a browser would unpack to gigabytes."""

from __future__ import annotations

import base64
import binascii
import re
import struct

IMAGES = ("image/png", "image/jpeg", "image/gif")
PIXELS = 50_000_000
JPEG_FRAME = re.compile(rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]..\x08(....)", re.DOTALL)
TOO_MANY = f"its picture has more than {PIXELS // 1_000_000} million pixels"


def encoded(text: str) -> str:
    """Text as base64."""
    return base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")


def checked_base64(data: str) -> bytes | None:
    """The bytes, or None where `data` isn't base64 (it would break out of its attribute)."""
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def safe_picture(data: str) -> tuple[str | None, str | None]:
    """The picture encoded anew and None, or None and why it can't be shown.

    >>> safe_picture("aG k=\\n"), safe_picture("<")
    (('aGk=', None), (None, "its picture isn't one"))
    """
    content = checked_base64(data)
    if content is None:
        return None, "its picture isn't one"
    if pixels(content) > PIXELS:
        return None, TOO_MANY
    return base64.b64encode(content).decode("ascii"), None


def pixels(content: bytes) -> int:
    """How many a browser unpacks, as the picture's own header says; 0 where none is found.

    >>> pixels(b"\\x89PNG\\r\\n\\x1a\\n" + b"\\0\\0\\0\\rIHDR" + struct.pack(">II", 30000, 30000))
    900000000
    """
    if content[:8] == b"\x89PNG\r\n\x1a\n" and len(content) >= 24:
        wide, high = struct.unpack(">II", content[16:24])
        return int(wide * high)
    if content[:4] == b"GIF8" and len(content) >= 10:
        wide, high = struct.unpack("<HH", content[6:10])
        return int(wide * high)
    if content[:2] == b"\xff\xd8":
        frames = (struct.unpack(">HH", match[1]) for match in JPEG_FRAME.finditer(content))
        return max((int(wide * high) for high, wide in frames), default=0)
    return 0
