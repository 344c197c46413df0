"""Which column each shape stands in, and the waypoints ("dummies") of links that span several columns."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

Pairs = Sequence[tuple[int, int]]


@dataclass
class Ranked:
    """The graph with waypoints: numbers below `shape_count` are shapes, the others waypoints.

    `before` and `after` hold the neighbours in the previous and next column; `spine` the links between
    computed things, which are to be straight; `bus` the waypoints of each source, column by column.
    """

    shape_count: int
    rank: list[int]
    before: list[list[int]]
    after: list[list[int]]
    spine: set[tuple[int, int]]
    bus: dict[int, list[int]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Shapes and waypoints."""
        return len(self.rank)

    @property
    def column_count(self) -> int:
        """How many columns there are."""
        return max(self.rank, default=-1) + 1


def ranked(count: int, pairs: Pairs, root: int | None) -> Ranked:
    """Ranks by the longest path to the root: every leaf stands beside its first use."""
    before, after = neighbours(count, pairs)
    order = topological(before, after)
    rank = ranks(order, before, after, order[-1] if root is None else root)
    graph = Ranked(count, rank, [[] for _ in range(count)], [[] for _ in range(count)], spine_of(order, before, after))
    _share_waypoints(graph, pairs)
    return graph


def neighbours(count: int, pairs: Pairs) -> tuple[list[list[int]], list[list[int]]]:
    """Of each shape: those that lead to it, and those that it leads to."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in pairs:
        after[source].append(target)
        before[target].append(source)
    return before, after


def topological(before: list[list[int]], after: list[list[int]]) -> list[int]:
    """Kahn's order. Raises: ValueError for a circle."""
    waiting = [len(sources) for sources in before]
    ready = deque(k for k, n in enumerate(waiting) if n == 0)
    order: list[int] = []
    while ready:
        here = ready.popleft()
        order.append(here)
        for target in after[here]:
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    if len(order) < len(before):
        raise ValueError("the links run in a circle")
    return order


def ranks(order: list[int], before: list[list[int]], after: list[list[int]], root: int) -> list[int]:
    """As far right as the root allows; what doesn't lead to the root stays beside what produced it."""
    live = _ancestors(before, root)
    rank = [0] * len(order)
    for here in reversed(order):
        if live[here]:
            rank[here] = min((rank[target] - 1 for target in after[here] if live[target]), default=0)
    lowest = min(rank)
    for here in order:
        if not live[here]:
            rank[here] = max(
                (rank[source] + 1 for source in before[here]), default=_start(here, after, live, rank, lowest)
            )
    lowest = min(rank)
    return [value - lowest for value in rank]


def _start(here: int, after: list[list[int]], live: list[bool], rank: list[int], lowest: int) -> int:
    """A source that misses the root: one column before the earliest live thing that it feeds, else the first column."""
    return min((rank[target] - 1 for target in after[here] if live[target]), default=lowest)


def _ancestors(before: list[list[int]], root: int) -> list[bool]:
    seen = [False] * len(before)
    stack = [root]
    while stack:
        here = stack.pop()
        if not seen[here]:
            seen[here] = True
            stack.extend(before[here])
    return seen


def spine_of(order: list[int], before: list[list[int]], after: list[list[int]]) -> set[tuple[int, int]]:
    """Links between computed things. A leaf, and what only a leaf feeds, hangs loosely and may bend."""
    loose = [False] * len(before)
    for here in order:
        sources = before[here]
        loose[here] = len(sources) <= 1 and all(loose[k] and len(set(after[k])) == 1 for k in sources)
    return {(source, here) for here in order for source in before[here] if not loose[source]}


def _share_waypoints(graph: Ranked, pairs: Pairs) -> None:
    """Long links of one source share one chain of waypoints, like a bus line: far fewer of them."""
    for source, target in pairs:
        start = graph.rank[source] + 1
        bus = graph.bus.setdefault(source, [])
        for rank in range(start + len(bus), graph.rank[target]):
            stop = _new_waypoint(graph, rank)
            _join(graph, bus[-1] if bus else source, stop)
            bus.append(stop)
        stops = graph.rank[target] - start
        _join(graph, bus[stops - 1] if stops else source, target)


def _new_waypoint(graph: Ranked, rank: int) -> int:
    graph.rank.append(rank)
    graph.before.append([])
    graph.after.append([])
    return len(graph.rank) - 1


def _join(graph: Ranked, source: int, target: int) -> None:
    graph.after[source].append(target)
    graph.before[target].append(source)
