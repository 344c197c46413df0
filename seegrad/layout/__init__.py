"""Shapes and links → Layout: layered, left to right, the same every time; plain Python, nearly linear.

Four stages, one module each: `ranks` (which column), `order` (above whom in the column, few crossings),
`coordinates` (how high, edges straight), `fold` (into bands that fit the page). It runs once, on the final graph, so
that nothing moves between steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..scene import Layout, Shape
from .coordinates import heights, place
from .fold import fold
from .order import best_order
from .ranks import Layers, layers_of

__all__ = ["arrange", "fold"]


def arrange(
    shapes: Sequence[Shape],
    links: Sequence[tuple[str, str]],
    root: str | None = None,
    *,
    gap_px: float = 24.0,
    rank_gap_px: float = 34.0,
) -> Layout:
    """Lay out `shapes` so that every link runs from left to right.

    Raises: ValueError when the links run in a circle or name an unknown Shape.

    >>> two = arrange([Shape("a", 90, 20, 20), Shape("b", 60, 20, 20)], [("a", "b")])
    >>> [(name, x) for name, (x, y) in two.centres]
    [('a', 45.0), ('b', 154.0)]
    """
    number = {shape.id: k for k, shape in enumerate(shapes)}
    unknown = {name for link in links for name in link} - number.keys()
    if unknown:
        raise ValueError(f"links name unknown shapes: {sorted(unknown)}")
    if not shapes:
        return Layout((), (), 0.0, 0.0)
    pairs = [(number[source], number[target]) for source, target in links]
    layers: Layers = layers_of(len(shapes), pairs, None if root is None else number[root])
    columns, crossings = best_order(layers)
    y = heights(layers, columns, shapes, gap_px)
    return place(layers, y, shapes, pairs, rank_gap_px, crossings)
