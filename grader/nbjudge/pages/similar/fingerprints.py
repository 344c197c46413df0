"""Winnowing (Schleimer, Wilkerson and Aiken, 2003): of every run of tokens a few, and the same few wherever it stands.

Two texts that share `GRAM + WINDOW - 1` tokens in a row share a fingerprint, whatever stands around.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Token: TypeAlias = tuple[str, int, int]  # the word that stands for it, where it begins and ends in the text

GRAM = 9  # tokens that a fingerprint covers: about a line and a half
WINDOW = 4  # of so many in a row one is kept


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a fingerprint was taken."""

    piece: int  # which text of the submission
    token: int  # its first token there
    start: int  # characters
    end: int


@dataclass(frozen=True, slots=True)
class Prints:
    """A submission as its fingerprints, each with where it was taken."""

    owner: str
    spots: Mapping[int, tuple[Spot, ...]]


def grams(words: Sequence[str]) -> list[int]:
    """The hash of every run of GRAM tokens; the same in every process.

    >>> len(grams("a b c d e f g h i j".split()))
    2
    """
    return [_hash("\0".join(words[at : at + GRAM])) for at in range(len(words) - GRAM + 1)]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())


def winnowed(hashes: Sequence[int]) -> Iterator[int]:
    """The places that are kept: in every window the smallest, of equals the last.

    >>> list(winnowed([5, 1, 7, 8, 9, 6, 3]))
    [1, 5, 6]
    """
    last = -1
    for start in range(max(1, len(hashes) - WINDOW + 1) if hashes else 0):
        window = range(start, min(start + WINDOW, len(hashes)))
        place = min(window, key=lambda at: (hashes[at], -at))
        if place != last:
            last = place
            yield place


def prints(owner: str, pieces: Sequence[Sequence[Token]]) -> Prints:
    """A submission's fingerprints. `pieces`: the tokens of its texts; none reaches over the end of one."""
    spots: dict[int, list[Spot]] = {}
    for piece, tokens in enumerate(pieces):
        hashes = grams([word for word, _, _ in tokens])
        for at in winnowed(hashes):
            spot = Spot(piece, at, tokens[at][1], tokens[at + GRAM - 1][2])
            spots.setdefault(hashes[at], []).append(spot)
    return Prints(owner, {mark: tuple(where) for mark, where in spots.items()})
