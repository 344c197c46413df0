"""How high each shape stands: least squares towards its neighbours, column by column, without overlap."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from seegrad.model.scene import Layout, Point, Shape
from seegrad.picture.layout.order import LARGE, Columns
from seegrad.picture.layout.ranks import Pairs, Ranked

WAYPOINT_PX = 1.0  # half the height of a waypoint
STRAIGHT, BEND, LINE, LOOSE = 40.0, 2.0, 8.0, 1.0  # how strongly links pull: spine, shape–waypoint, waypoints, leaves


def heights(graph: Ranked, columns: Columns, shapes: Sequence[Shape], gap_px: float) -> list[float]:
    """The y of every shape and waypoint, in pixels, smallest top at 0."""
    spare = graph.count - graph.shape_count
    above = [*(shape.above_px for shape in shapes), *[WAYPOINT_PX] * spare]
    below = [*(shape.below_px for shape in shapes), *[WAYPOINT_PX] * spare]
    offsets = [_offsets(column, above, below, graph.shape_count, gap_px) for column in columns]
    y = [0.0] * graph.count
    before, after = _pulls(graph, graph.before), _pulls(graph, graph.after)
    for column, offset in zip(columns, offsets, strict=True):
        for here, value in zip(column, offset, strict=True):
            y[here] = value - offset[-1] / 2
    for sweep in range(10 if graph.count < LARGE else 6):
        both = sweep > 1
        for k in range(1, len(columns)):
            _settle(columns[k], offsets[k], y, (before, after if both else None))
        for k in range(len(columns) - 2, -1, -1):
            _settle(columns[k], offsets[k], y, (after, before if both else None))
    top = min(y[k] - above[k] for k in range(graph.count))
    return [value - top for value in y]


def _offsets(column: list[int], above: list[float], below: list[float], shape_count: int, gap_px: float) -> list[float]:
    """The closest that the column's members may stand, the first at 0."""
    offsets = [0.0]
    for upper, lower in pairwise(column):
        gap = gap_px if upper < shape_count and lower < shape_count else gap_px * 0.6
        offsets.append(offsets[-1] + below[upper] + above[lower] + gap)
    return offsets[: len(column)]


Pulls = list[list[tuple[int, float]]]
"""For each shape and waypoint its neighbours on one side, and how strongly each pulls."""


def _pulls(graph: Ranked, near: list[list[int]]) -> Pulls:
    shapes, spine = graph.shape_count, graph.spine

    def pull(a: int, b: int) -> float:
        if a >= shapes and b >= shapes:
            return LINE
        if a >= shapes or b >= shapes:
            return BEND
        return STRAIGHT if (a, b) in spine or (b, a) in spine else LOOSE

    return [[(other, pull(other, here)) for other in others] for here, others in enumerate(near)]


def _settle(column: list[int], offsets: list[float], y: list[float], near: tuple[Pulls, Pulls | None]) -> None:
    """Move one column as close as it can be to where its neighbours want it."""
    first, second = near
    wishes, weights = [], []
    for here, offset in zip(column, offsets, strict=True):
        total = weight = 0.0
        for other, pull in first[here]:
            total += pull * y[other]
            weight += pull
        for other, pull in second[here] if second else ():
            total += pull / 2 * y[other]
            weight += pull / 2
        wishes.append((total / weight if weight else y[here]) - offset)
        weights.append(weight or 0.05)
    for here, value, offset in zip(column, isotonic(wishes, weights), offsets, strict=True):
        y[here] = value + offset


def isotonic(wishes: list[float], weights: list[float]) -> list[float]:
    """The non-decreasing values nearest to `wishes` in weighted least squares (pool adjacent violators).

    >>> isotonic([0.0, 4.0, 2.0, 5.0], [1.0, 1.0, 1.0, 1.0])
    [0.0, 3.0, 3.0, 5.0]
    """
    blocks: list[tuple[float, float, int]] = []
    for wish, own in zip(wishes, weights, strict=True):
        value, weight, size = wish, own, 1
        while blocks and blocks[-1][0] > value:
            earlier, earlier_weight, earlier_size = blocks.pop()
            value = (value * weight + earlier * earlier_weight) / (weight + earlier_weight)
            weight += earlier_weight
            size += earlier_size
        blocks.append((value, weight, size))
    return [value for value, _, size in blocks for _ in range(size)]


def place(
    graph: Ranked, y: list[float], shapes: Sequence[Shape], pairs: Pairs, rank_gap_px: float, crossings: int
) -> Layout:
    """Columns side by side, and each link's bend points: in and out of every column that it crosses."""
    widths = [0.0] * graph.column_count
    for shape, rank in zip(shapes, graph.rank, strict=False):
        widths[rank] = max(widths[rank], shape.width_px)
    before, after = _sides(graph, shapes, widths)
    lefts, left = [], 0.0
    for rank, width in enumerate(widths):
        left += max(before[rank], after[rank - 1]) if rank else 0.0
        lefts.append(left)
        left += width + rank_gap_px

    def centre(k: int) -> Point:
        return round(lefts[graph.rank[k]] + widths[graph.rank[k]] / 2, 1), round(y[k], 1)

    lines = {source: _bends(graph, bus, lefts, widths, y) for source, bus in graph.bus.items()}

    def route(source: int, target: int) -> tuple[Point, ...]:
        between = graph.rank[target] - graph.rank[source] - 1
        if not between:
            return centre(source), centre(target)
        points, stops = lines[source]
        bends, end = stops[between - 1]
        return (centre(source), *points[:bends], end, centre(target))

    routes = tuple(route(source, target) for source, target in pairs)
    bottom = max([y[k] + WAYPOINT_PX for k in range(graph.count)] + [y[k] + s.below_px for k, s in enumerate(shapes)])
    centres = tuple((shape.id, centre(k)) for k, shape in enumerate(shapes))
    return Layout(centres, routes, round(left - rank_gap_px, 1), round(bottom, 1), crossings)


def _sides(graph: Ranked, shapes: Sequence[Shape], widths: list[float]) -> tuple[list[float], list[float]]:
    """The room that each column needs before and after it: a Shape narrower than its column has some already."""
    before, after = [0.0] * len(widths), [0.0] * len(widths)
    for shape, rank in zip(shapes, graph.rank, strict=False):
        beside = (widths[rank] - shape.width_px) / 2
        before[rank] = max(before[rank], shape.before_px - beside)
        after[rank] = max(after[rank], shape.after_px - beside)
    return before, after


def _bends(
    graph: Ranked, bus: list[int], lefts: list[float], widths: list[float], y: list[float]
) -> tuple[list[Point], list[tuple[int, Point]]]:
    """The points at which a source's bus line bends, and for each column on its way how many are behind, and its end.

    A route is the beginning of the line up to the column before its target.
    """
    points: list[Point] = []
    stops: list[tuple[int, Point]] = []
    for stop in bus:
        left, height = lefts[graph.rank[stop]], round(y[stop], 1)
        if not stops or stops[-1][1][1] != height:
            points += [stops[-1][1]] if stops else []
            points.append((round(left, 1), height))
        stops.append((len(points), (round(left + widths[graph.rank[stop]], 1), height)))
    return points, stops
