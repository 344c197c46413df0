"""The corpus in halves: two processes record one each, and ask of its programs all that is asked."""

from __future__ import annotations

import zlib

HALVES = ("first half", "second half")


def half_of(name: str) -> str:
    """Which half a program is in, the same in each process; so is whatever else has a name."""
    return HALVES[zlib.crc32(name.encode()) % 2]
