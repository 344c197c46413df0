"""Pictures of untrusted origin: made anew as data, and all of a page together no more than a browser can hold.

There is one way into a page, whatever a picture comes from: an output, an attachment, text as data, a file beside the
notebook. What can't be measured isn't shown.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from nbjudge.shown.measures import SOURCE, SVG, checked_base64, content_of, kind_and_pixels, measured
from nbjudge.shown.patience import NotShown

IMAGES = ("image/png", "image/jpeg", "image/gif")
PIXELS, PAGE_PIXELS = 50_000_000, 200_000_000
PAGE_PARTS = 200_000  # of all drawings together
PAGE_BYTES = 32 << 20  # of all pictures as they are stored, each as often as it is named
OWN_FILE = re.compile(r"(?!.*\.\.)[\w-][\w./-]*")
TOO_MANY = f"its picture has more than {PIXELS // 1_000_000} million pixels"
PAGE_FULL = "the pictures before it are as much as a page can hold"


class Pictures:
    """The pictures of one page. `files`: what lies beside it, None where that isn't known yet."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self._files = files
        self._left_pixels, self._left_parts, self._left_bytes = PAGE_PIXELS, PAGE_PARTS, PAGE_BYTES

    def encoded(self, data: str) -> str:
        """A picture of dots, base64 as it came, encoded anew. Raises `NotShown`.

        >>> Pictures().encoded("aGk=")
        Traceback (most recent call last):
        nbjudge.shown.patience.NotShown: its picture isn't one
        """
        content = checked_base64(data)
        self._take(len(content), kind_and_pixels(content)[1])
        return base64.b64encode(content).decode("ascii")

    def drawing(self, svg: str) -> str:
        """An SVG as a source of an `<img>`, where its scripts don't run and its links don't lead. Raises `NotShown`."""
        parts, inside = measured(svg)
        self._take(len(svg), inside, parts)
        return f"data:{SVG};base64,{base64.b64encode(svg.encode('utf-8', 'replace')).decode('ascii')}"

    def may_show(self, source: str) -> bool:
        """Is this a source that a picture may have, by its form?"""
        if OWN_FILE.fullmatch(source):
            return self._files is None or source in self._files
        return SOURCE.fullmatch(source) is not None

    def source(self, source: str) -> str:
        """What an `<img>` gets in the place of a source that it may have. Raises `NotShown`."""
        if found := SOURCE.fullmatch(source):
            content = content_of(found)
        elif self._files is None:
            return source
        else:
            content = self._files[source]
        if (found and found[1].lower() == SVG) or (not found and source.lower().endswith(".svg")):
            return self.drawing(content.decode("utf-8", "replace"))
        kind, pixels = kind_and_pixels(content)
        self._take(len(content), pixels)
        return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"

    def _take(self, size_bytes: int, pixels: int, parts: int = 0) -> None:
        if pixels > PIXELS:
            raise NotShown(TOO_MANY)
        if pixels > self._left_pixels or parts > self._left_parts or size_bytes > self._left_bytes:
            raise NotShown(PAGE_FULL)
        self._left_bytes -= size_bytes
        self._left_pixels -= pixels
        self._left_parts -= parts
