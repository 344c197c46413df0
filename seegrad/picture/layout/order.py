"""Who stands above whom in a column: barycentre sweeps and swaps of neighbours from a few fixed starts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from seegrad.picture.layout.ranks import Ranked

Columns = list[list[int]]

SMALL, MIDDLE, LARGE = 120, 600, 3000  # shapes and waypoints; above LARGE only a few plain sweeps are worth their time


def best_order(graph: Ranked) -> tuple[Columns, int]:
    """The columns with the fewest crossings found, mirrored so that earlier arguments stand above later ones."""
    _spine_to_the_middle(graph)
    best: Columns = []
    fewest = -1
    for start in range(_starts(graph.count)):
        for columns, crossings in _sweeps(graph, start):
            if fewest < 0 or crossings < fewest:
                best, fewest = [list(column) for column in columns], crossings
        if fewest == 0:
            break
    return _earlier_first(best, graph.shape_count), fewest


def _starts(count: int) -> int:
    return 12 if count < SMALL else 2 if count < MIDDLE else 1


def _spine_to_the_middle(graph: Ranked) -> None:
    """Put the one computed argument of a shape between its leaves, half of them on each side."""
    for here, sources in enumerate(graph.before[: graph.shape_count]):
        spine = [source for source in sources if (source, here) in graph.spine]
        if len(spine) == 1 and len(sources) > 2:
            rest = [source for source in sources if source != spine[0]]
            graph.before[here] = [*rest[: len(rest) // 2], spine[0], *rest[len(rest) // 2 :]]


def _sweeps(graph: Ranked, start: int) -> Iterator[tuple[Columns, int]]:
    columns, position = first_order(graph, start)
    yield columns, count_crossings(graph, columns, position)
    sweeps = 24 if graph.count < MIDDLE else 10 if graph.count < LARGE else 4
    fewest, since_better = -1, 0
    for sweep in range(sweeps):
        _sort_by_neighbours(graph, columns, position, forward=sweep % 2 == 0)
        if graph.count < LARGE:
            for column in columns:
                _swap_neighbours(graph, column, position)
        crossings = count_crossings(graph, columns, position)
        yield columns, crossings
        since_better = 0 if fewest < 0 or crossings < fewest else since_better + 1
        fewest = crossings if fewest < 0 else min(fewest, crossings)
        if fewest == 0 or since_better > 5:
            return


def first_order(graph: Ranked, start: int) -> tuple[Columns, list[int]]:
    """Order number `start`: depth first from the sinks in argument order, mirrored, or shuffled by a fixed recipe."""
    columns: Columns = [[] for _ in range(graph.column_count)]
    seen = [False] * graph.count
    shuffle = _Shuffle(12345 + start)
    sinks = [k for k in range(graph.shape_count) if not graph.after[k]]
    for origin in [*(sinks if start % 2 == 0 else reversed(sinks)), *range(graph.count)]:
        stack = [origin]
        while stack:
            here = stack.pop()
            if seen[here]:
                continue
            seen[here] = True
            columns[graph.rank[here]].append(here)
            sources = graph.before[here][:: -1 if start % 2 == 0 else 1]
            stack.extend(shuffle.of(sources) if start > 1 else sources)
    position = [0] * graph.count
    for column in columns:
        _renumber(column, position)
    return columns, position


class _Shuffle:
    """A fixed pseudo-random permutation, the same on every machine and in every Python."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def of(self, items: list[int]) -> list[int]:
        items = list(items)
        for last in range(len(items) - 1, 0, -1):
            self.state = (self.state * 1103515245 + 12345) & 0x7FFFFFFF
            other = (self.state >> 8) % (last + 1)
            items[last], items[other] = items[other], items[last]
        return items


def _renumber(column: list[int], position: list[int]) -> None:
    for place, here in enumerate(column):
        position[here] = place


def _sort_by_neighbours(graph: Ranked, columns: Columns, position: list[int], *, forward: bool) -> None:
    near = graph.before if forward else graph.after
    for column in columns[1:] if forward else columns[-2::-1]:
        mean = {k: sum(position[n] for n in near[k]) / len(near[k]) if near[k] else float(position[k]) for k in column}
        column.sort(key=lambda k: (mean[k], position[k]))
        _renumber(column, position)


def _swap_neighbours(graph: Ranked, column: list[int], position: list[int]) -> None:
    for _ in range(4):
        swapped = False
        for place in range(len(column) - 1):
            upper, lower = column[place], column[place + 1]
            if _crossings_between(graph, lower, upper, position) < _crossings_between(graph, upper, lower, position):
                column[place], column[place + 1] = lower, upper
                position[upper], position[lower] = place + 1, place
                swapped = True
        if not swapped:
            return


def _crossings_between(graph: Ranked, upper: int, lower: int, position: list[int]) -> int:
    return sum(
        position[a] > position[b] for near in (graph.before, graph.after) for a in near[upper] for b in near[lower]
    )


def count_crossings(graph: Ranked, columns: Columns, position: list[int]) -> int:
    """Crossings between neighbouring columns, counted with a Fenwick tree in E log V."""
    total = 0
    for column in columns[:-1]:
        ends = [end for here in column for end in sorted(position[target] for target in graph.after[here])]
        total += _inversions(ends)
    return total


def _inversions(values: list[int]) -> int:
    size = max(values, default=0) + 2
    tree = [0] * (size + 1)
    total = 0
    for count, value in enumerate(values):
        at, not_above = value + 1, 0
        while at:
            not_above += tree[at]
            at &= at - 1
        total += count - not_above
        at = value + 1
        while at <= size:
            tree[at] += 1
            at += at & -at
    return total


def _earlier_first(columns: Columns, shape_count: int) -> Columns:
    agree = 0
    for column in columns:
        shapes = [k for k in column if k < shape_count]
        agree += sum((a < b) - (a > b) for a, b in pairwise(shapes))
    return [column[::-1] for column in columns] if agree < 0 else columns
