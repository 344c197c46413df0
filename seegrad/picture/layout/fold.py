"""A picture that is wider than the page is folded into bands, as text is broken into lines.

A link that leads from one band to the next leaves at the right edge, runs back in the lane between the two bands, and
comes in at the left edge. It is cut where the fewest links cross.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from seegrad.model.scene import Layout, Point, Shape

EDGE_PX = 26.0  # beside a band, for the lines that turn
LANE_PX = 9.0  # between two lines that run back
GUTTER_PX = 30.0  # between two bands, without lanes
MOST_BANDS = 14
MOST_CROSSING = 9  # more lines than these can't be followed around a corner
CROSSING_COST, BAND_COST = 45.0, 60.0


@dataclass(frozen=True, slots=True)
class _Column:
    """Shapes of one rank, from `left` to `right`."""

    left: float
    right: float


def fold(layout: Layout, shapes: Sequence[Shape], widest_px: float) -> Layout:
    """The Layout in bands of at most `widest_px`; as it is where it fits, or where too many links would be cut.

    >>> long = Layout((("a", (40, 9)), ("b", (160, 9))), (((40, 9), (160, 9)),), 200, 20)
    >>> folded = fold(long, [Shape("a", 80, 9, 9), Shape("b", 80, 9, 9)], 150)
    >>> folded.width_px, [x for x, _ in dict(folded.centres).values()]
    (132.0, [66.0, 66.0])
    """
    if layout.width_px <= widest_px:
        return layout
    columns = _columns(layout, shapes)
    crossing = _crossing(layout, columns)
    cuts = _best_cuts(columns, [len(links) for links in crossing], widest_px - 2 * EDGE_PX)
    if not cuts or len(cuts) >= MOST_BANDS or any(len(crossing[cut]) > MOST_CROSSING for cut in cuts):
        return layout
    return _Folding(layout, shapes, columns, cuts, crossing).layout()


def _columns(layout: Layout, shapes: Sequence[Shape]) -> list[_Column]:
    edges: dict[float, _Column] = {}
    for (_, (x, _y)), shape in zip(layout.centres, shapes, strict=True):
        old = edges.get(x, _Column(x, x))
        half = shape.width_px / 2
        edges[x] = _Column(min(old.left, x - half), max(old.right, x + half))
    return [edges[x] for x in sorted(edges)]


def _crossing(layout: Layout, columns: list[_Column]) -> list[set[float]]:
    """For each gap between two columns the heights from which lines cross it; lines of one source count once."""
    rights = [column.right for column in columns]
    crossing: list[set[float]] = [set() for _ in columns]
    for route in layout.routes:
        for here, there in pairwise(route):
            for gap in range(bisect_left(rights, here[0] - 0.2), bisect_left(rights, there[0] - 0.2)):
                crossing[gap].add(here[1])
    return crossing


def _best_cuts(columns: list[_Column], crossing: list[int], widest: float) -> list[int]:
    """The gaps at which to cut: few crossings, few bands, all about equally wide. One pass of dynamic programming."""
    count = len(columns)
    best: list[tuple[float, int]] = [(0.0, -1)]  # cost of the first k columns, and where their last band begins
    for stop in range(1, count + 1):
        options = []
        for start in range(stop - 1, -1, -1):
            width = columns[stop - 1].right - columns[start].left
            if width > widest and start < stop - 1:
                break
            slack = max(0.0, widest - width)
            cost = best[start][0] + BAND_COST + slack * slack / widest * 0.15
            options.append((cost + (CROSSING_COST * crossing[stop - 1] if stop < count else 0.0), start))
        best.append(min(options))
    cuts, stop = [], count
    while stop > 0:
        stop = best[stop][1]
        cuts.append(stop - 1)
    return cuts[-2::-1]


class _Folding:
    """One Layout being folded at `cuts`."""

    def __init__(
        self,
        layout: Layout,
        shapes: Sequence[Shape],
        columns: list[_Column],
        cuts: list[int],
        crossing: list[set[float]],
    ) -> None:
        self.old, self.shapes = layout, shapes
        self.ends = [columns[cut].right + 0.2 for cut in cuts]
        starts = [0, *(cut + 1 for cut in cuts)]
        stops = [*cuts, len(columns) - 1]
        self.lefts = [columns[start].left for start in starts]
        self.width = max(columns[b].right - columns[a].left for a, b in zip(starts, stops, strict=True)) + 2 * EDGE_PX
        self.lanes = [{height: lane for lane, height in enumerate(sorted(crossing[cut], reverse=True))} for cut in cuts]
        self.tops, self.drops, self.height = self._heights()

    def _band(self, x: float) -> int:
        return bisect_right(self.ends, x)

    def _heights(self) -> tuple[list[float], list[float], float]:
        """The old top of each band, how far it moves down, and the whole height."""
        tops = [float("inf")] * len(self.lefts)
        bottoms = [float("-inf")] * len(self.lefts)
        for (_, (x, y)), shape in zip(self.old.centres, self.shapes, strict=True):
            band = self._band(x)
            tops[band] = min(tops[band], y - shape.above_px)
            bottoms[band] = max(bottoms[band], y + shape.below_px)
        for route in self.old.routes:
            for x, y in route:
                band = self._band(x)
                tops[band], bottoms[band] = min(tops[band], y), max(bottoms[band], y)
        drops, at = [], 0.0
        for band, (top, bottom) in enumerate(zip(tops, bottoms, strict=True)):
            drops.append(at - top)
            lanes = len(self.lanes[band]) if band < len(self.lanes) else 0
            at += bottom - top + GUTTER_PX + LANE_PX * lanes
        return tops, drops, at - GUTTER_PX

    def _moved(self, point: Point, band: int) -> Point:
        return round(point[0] - self.lefts[band] + EDGE_PX, 1), round(point[1] + self.drops[band], 1)

    def _lane(self, band: int, height: float) -> float:
        """The height of the lane below a band in which the line that leaves at `height` runs back."""
        first = self.tops[band + 1] + self.drops[band + 1] - GUTTER_PX / 2
        return round(first - LANE_PX * (len(self.lanes[band]) - self.lanes[band][height] - 0.5), 1)

    def _route(self, route: Sequence[Point]) -> tuple[Point, ...]:
        points = [self._moved(route[0], self._band(route[0][0]))]
        for (x0, y0), (x1, y1) in pairwise(route):
            last = self._band(x1)
            for band in range(self._band(x0), last):  # a straight line may cross several bands
                right, left = self.width - EDGE_PX, EDGE_PX
                arrives = y1 if band + 1 == last else y0
                points += [
                    (round(right, 1), self._moved((x0, y0), band)[1]),
                    (round((left + right) / 2, 1), self._lane(band, y0)),
                    (left, self._moved((x1, arrives), band + 1)[1]),
                ]
            points.append(self._moved((x1, y1), last))
        return tuple(points)

    def layout(self) -> Layout:
        """The folded Layout."""
        centres = tuple((name, self._moved(at, self._band(at[0]))) for name, at in self.old.centres)
        routes = tuple(self._route(route) for route in self.old.routes)
        return replace(
            self.old, centres=centres, routes=routes, width_px=round(self.width, 1), height_px=round(self.height, 1)
        )
