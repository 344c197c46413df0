"""The pairs of a class that share what others don't: an inverted index of fingerprints, never text against text.

What the course gives (release, tests, solution) isn't looked at, nor what much of the class has alike. The rarer a
fingerprint is in the class, the more it weighs: log2(students / those who have it), as a surprise does in bits.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from nbjudge.pages.similar.fingerprints import GRAM, Prints, Spot

LEAST_TOKENS = 60  # that both have in common: what is shorter may be written alike by chance
ALWAYS = 0.9  # a pair is told from here on, however near the whole class is
FEWEST = 4  # of fewer the nearest pair itself is the median


@dataclass(frozen=True, slots=True)
class Pair:
    """Two submissions that share more than the class does. `shared`: their fingerprints."""

    first: Prints
    second: Prints
    nearness: float  # 0 to 1: of what the one with less has written, how much the other has too
    tokens: int  # in common
    shared: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What a class yields: its pairs, the nearest first, and how near a submission usually is to its nearest.

    So few that nothing is usual among them have None there.
    """

    pairs: tuple[Pair, ...]
    usual: float | None

    @property
    def bound(self) -> float:
        """From which nearness on a pair is told: a third of the way from what is usual to the same text."""
        return ALWAYS if self.usual is None else min(ALWAYS, (1 + 2 * self.usual) / 3)


def many(students: int) -> int:
    """Of so many submissions, how many have alike what counts as the class's: half, of a large class a tenth.

    >>> many(5), many(30), many(100), many(1000)
    (2, 15, 20, 100)
    """
    return max(2, min(students // 2, max(20, students // 10)))


def nearer(group: Sequence[Prints], given: Collection[int]) -> Found:
    """The pairs of a class. `given`: fingerprints of all that the course itself has written."""
    holders = _holders(group, frozenset(given))
    weights = {mark: math.log2((len(group) + 1) / len(who)) for mark, who in holders.items()}
    own = [math.fsum(weights.get(mark, 0.0) for mark in one.spots) for one in group]
    near = {
        pair: min(1.0, weight / min(own[place] for place in pair))
        for pair, weight in _together(holders, weights).items()
    }
    found = Found((), _usual(near, [place for place, weight in enumerate(own) if weight]))
    told = [(pair, value) for pair, value in near.items() if value >= found.bound]
    made = (_pair([group[place] for place in pair], value, weights) for pair, value in told)
    pairs = sorted(
        (pair for pair in made if pair.tokens >= LEAST_TOKENS),
        key=lambda pair: (-pair.nearness, -pair.tokens, pair.first.owner, pair.second.owner),
    )
    return Found(tuple(pairs), found.usual)


def _holders(group: Sequence[Prints], given: frozenset[int]) -> dict[int, list[int]]:
    """Fingerprint → who has it, without what the course gives and what much of the class has."""
    holders: dict[int, list[int]] = defaultdict(list)
    for place, one in enumerate(group):
        for mark in one.spots:
            if mark not in given:
                holders[mark].append(place)
    most = many(len(group))
    return {mark: who for mark, who in holders.items() if len(who) <= most}


def _together(holders: Mapping[int, Sequence[int]], weights: Mapping[int, float]) -> dict[tuple[int, int], float]:
    """Pairs that share something → the weight of it. A fingerprint is held by few, so they are few."""
    found: dict[tuple[int, int], float] = defaultdict(float)
    for mark, who in holders.items():
        for pair in combinations(who, 2):
            found[pair] += weights[mark]
    return found


def _usual(near: Mapping[tuple[int, int], float], places: Sequence[int]) -> float | None:
    """How near a submission is to its nearest: the median of the class."""
    if len(places) < FEWEST:
        return None
    best = dict.fromkeys(places, 0.0)
    for pair, value in near.items():
        best.update((place, value) for place in pair if value > best[place])
    return statistics.median(best.values())


def _pair(both: Sequence[Prints], nearness: float, weights: Mapping[int, float]) -> Pair:
    first, second = sorted(both, key=lambda one: one.owner)
    marks = first.spots.keys() & second.spots.keys() & weights.keys()
    return Pair(first, second, nearness, min(covered(one, marks) for one in both), tuple(sorted(marks)))


def covered(one: Prints, marks: Iterable[int]) -> int:
    """How many of its tokens these fingerprints cover."""
    spots = (spot for mark in marks for spot in one.spots[mark])
    return len({(spot.piece, spot.token + step) for spot in spots for step in range(GRAM)})


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text that the other one has too. `number` is the same on both sides."""

    piece: int
    start: int
    end: int
    number: int


def passages(pair: Pair) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
    """What is to be marked in both texts; a part of the second has the number of what it has most in common with."""
    left, right = (_runs(one.spots, pair.shared) for one in (pair.first, pair.second))
    number = {mark: place for place, (_, marks) in enumerate(left, 1) for mark in marks}
    return (
        tuple(Passage(*run, place) for place, (run, _) in enumerate(left, 1)),
        tuple(Passage(*run, Counter(number[mark] for mark in marks).most_common(1)[0][0]) for run, marks in right),
    )


def _runs(spots: Mapping[int, Sequence[Spot]], marks: Iterable[int]) -> list[tuple[tuple[int, int, int], list[int]]]:
    """Spots that touch as one run: piece, start, end; with the fingerprints in it."""
    found: list[tuple[tuple[int, int, int], list[int]]] = []
    placed = sorted((spot.piece, spot.start, spot.end, mark) for mark in marks for spot in spots[mark])
    for piece, start, end, mark in placed:
        if found and found[-1][0][0] == piece and start <= found[-1][0][2]:
            (_, begun, reached), inside = found[-1]
            inside.append(mark)
            found[-1] = ((piece, begun, max(reached, end)), inside)
        else:
            found.append(((piece, start, end), [mark]))
    return found
