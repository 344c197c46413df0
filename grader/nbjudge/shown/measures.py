"""How much a reader's browser unpacks and draws for a picture of untrusted origin, by its header or its parts."""

from __future__ import annotations

import base64
import binascii
import io
import re
import struct
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree

from nbjudge.shown.patience import NotShown

SVG = "image/svg+xml"
SOURCE = re.compile(r"data:(image/(?:png|jpeg|gif|webp|svg\+xml))((?:;[\w=.-]{1,20})*),(.*)", re.IGNORECASE | re.DOTALL)
JPEG_FRAME = re.compile(rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]..\x08(....)", re.DOTALL)
NO_PICTURE = "its picture isn't one"
TOO_LARGE = "its {kind} is larger than {limit} kB"
SVG_CHARS = 2_000_000
PARTS = 50_000  # elements that a reader's browser draws, uses of others multiplied out
NESTING = 1000
# What costs by the area that it covers, which nobody can say here; a pattern's tile is drawn once.
EFFECTS = frozenset({"filter", "mask", "foreignObject", "feImage"})
BEYOND = re.compile(r"<\?xml-stylesheet|\bfilter\s*:|url\(\s*[\"']?data:", re.IGNORECASE)
NUMBER = re.compile(r"-?\d[\d.e+-]*", re.IGNORECASE)
POINTS = ("d", "points")
TOO_MANY = f"its SVG draws more than {PARTS} parts"


def measured(svg: str) -> tuple[int, int]:
    """The parts that a browser draws, and the pixels of the pictures inside.

    Raises:
        NotShown: it isn't an SVG, or drawing it would keep the reader's browser busy.

    >>> measured('<svg><g id="a"><path/></g><use href="#a"/><use href="#a"/></svg>')
    (9, 0)
    """
    if len(svg) > SVG_CHARS:
        raise NotShown(TOO_LARGE.format(kind="SVG", limit=SVG_CHARS // 1000))
    if "<!ENTITY" in svg.upper():
        raise NotShown("its SVG defines entities")
    if BEYOND.search(svg):
        raise NotShown("its SVG has effects")
    sizes: dict[str, int] = {}  # of what has an id; a use before its definition counts once all are known
    parts = pixels = 0
    for _ in range(8):  # definitions behind their uses need another round each
        before, (parts, pixels) = parts, _Round(sizes).over(svg)
        if parts == before or parts > PARTS:
            break
    if parts > PARTS:
        raise NotShown(TOO_MANY)
    return parts, pixels


class _Round:
    """One reading of an SVG, with the sizes of what has an id as far as they are known."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self._sizes = sizes
        self._counts = [0]
        self._pixels = self._numbers = self._marker = 0

    def over(self, svg: str) -> tuple[int, int]:
        """Its parts and its pixels. A marker is drawn at every point, as far as anybody knows here."""
        try:
            for event, element in ElementTree.iterparse(io.StringIO(svg), ("start", "end")):  # noqa: S314 - confined, and without entities
                if event == "end":
                    self._end(element)
                elif len(self._counts) > NESTING:
                    raise NotShown("its SVG is nested too deeply")
                else:
                    self._counts.append(1)
        except ElementTree.ParseError:
            raise NotShown("its SVG is damaged") from None
        return self._counts[0] + self._marker * (self._numbers // 2), self._pixels

    def _end(self, element: ElementTree.Element) -> None:
        name, count = _local(element.tag), self._counts.pop()
        if name in EFFECTS:
            raise NotShown("its SVG has effects")
        href = next((value for key, value in element.items() if _local(key) == "href"), "")
        if name == "use":
            count += self._sizes.get(href.removeprefix("#"), 0)
        if name == "image" and href.lstrip().lower().startswith("data:"):
            self._pixels += pixels_of_source(href.strip())
        if name == "marker":
            self._marker += count
        self._numbers += sum(len(NUMBER.findall(element.get(each, ""))) for each in POINTS)
        count = min(count, 2 * PARTS)
        if identity := element.get("id"):
            self._sizes[identity] = count
        self._counts[-1] = min(self._counts[-1] + count, 2 * PARTS)
        element.clear()


def _local(name: str) -> str:
    return name.rpartition("}")[2]


# --- pictures of dots ------------------------------------------------------------------------------------------------


def pixels_of_source(source: str) -> int:
    """Of a picture inside a drawing. Raises `NotShown` where it is a drawing again, or none."""
    found = SOURCE.fullmatch(source)
    if found is None or found[1].lower() == SVG:
        raise NotShown(NO_PICTURE)
    return kind_and_pixels(content_of(found))[1]


def content_of(found: re.Match[str]) -> bytes:
    """The bytes that a match of `SOURCE` has found. Raises `NotShown`."""
    return checked_base64(found[3]) if ";base64" in found[2].lower() else unquote_to_bytes(found[3])


def checked_base64(data: str) -> bytes:
    """The bytes. Raises `NotShown` where `data` isn't base64 (it would break out of its attribute)."""
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise NotShown(NO_PICTURE) from None


def kind_and_pixels(content: bytes) -> tuple[str, int]:
    """What a browser takes it for and how many pixels it unpacks, as its own header says. Raises `NotShown`.

    >>> kind_and_pixels(b"\\x89PNG\\r\\n\\x1a\\n" + b"\\0\\0\\0\\rIHDR" + struct.pack(">II", 30000, 30000))
    ('image/png', 900000000)
    """
    if content[:8] == b"\x89PNG\r\n\x1a\n" and len(content) >= 24:
        wide, high = struct.unpack(">II", content[16:24])
        return "image/png", wide * high
    if content[:4] == b"GIF8" and len(content) >= 10:
        wide, high = struct.unpack("<HH", content[6:10])
        return "image/gif", wide * high
    if content[:2] == b"\xff\xd8":
        frames = (struct.unpack(">HH", match[1]) for match in JPEG_FRAME.finditer(content))
        if most := max((wide * high for high, wide in frames), default=0):
            return "image/jpeg", most
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP" and len(content) >= 30:
        return "image/webp", _webp(content)
    raise NotShown(NO_PICTURE)


def _webp(content: bytes) -> int:
    """Its three kinds write their size in three ways."""
    if content[12:16] == b"VP8X":
        return (1 + int.from_bytes(content[24:27], "little")) * (1 + int.from_bytes(content[27:30], "little"))
    if content[12:16] == b"VP8L":
        bits = int.from_bytes(content[21:25], "little")
        return (1 + (bits & 0x3FFF)) * (1 + (bits >> 14 & 0x3FFF))
    if content[12:16] == b"VP8 ":
        wide, high = struct.unpack("<HH", content[26:30])
        return int((wide & 0x3FFF) * (high & 0x3FFF))
    raise NotShown(NO_PICTURE)
