"""Shapes and links → Layout: layered, left to right, the same every time; plain Python, nearly linear.

Four stages, one module each: `ranks` (which column), `order` (above whom in the column, few crossings),
`coordinates` (how high, edges straight), `fold` (into bands that fit the page). It runs once, on the final graph, so
that nothing moves between steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seegrad.model.scene import Layout, Shape
from seegrad.picture.layout.coordinates import heights, place
from seegrad.picture.layout.fold import fold
from seegrad.picture.layout.order import Columns, best_order
from seegrad.picture.layout.ranks import Ranked, ranked

__all__ = ["Order", "arrange", "fold", "in_order"]


@dataclass(frozen=True, slots=True)
class Order:
    """Which column each Shape stands in, and above whom: the same however large the Shapes are."""

    graph: Ranked
    columns: Columns
    crossings: int


def in_order(names: Sequence[str], links: Sequence[tuple[str, str]], root: str | None = None) -> Order:
    """The Order of Shapes of these names. Raises: ValueError like `arrange`.

    >>> in_order(["a", "b"], [("a", "b")]).columns
    [[0], [1]]
    """
    number = {name: k for k, name in enumerate(names)}
    unknown = {name for link in links for name in link} - number.keys()
    if unknown:
        raise ValueError(f"links name unknown shapes: {sorted(unknown)}")
    if not names:
        return Order(Ranked(0, [], [], [], set()), [], 0)
    pairs = [(number[source], number[target]) for source, target in links]
    graph = ranked(len(names), pairs, None if root is None else number[root])
    return Order(graph, *best_order(graph))


def arrange(
    shapes: Sequence[Shape],
    links: Sequence[tuple[str, str]],
    root: str | None = None,
    *,
    gap_px: float = 24.0,
    rank_gap_px: float = 34.0,
    order: Order | None = None,
) -> Layout:
    """Lay out `shapes` so that every link runs from left to right; in the `order` that is known of the same graph.

    Raises: ValueError when the links run in a circle or name an unknown Shape.

    >>> two = arrange([Shape("a", 90, 20, 20), Shape("b", 60, 20, 20)], [("a", "b")])
    >>> [(name, x) for name, (x, y) in two.centres]
    [('a', 45.0), ('b', 154.0)]
    """
    found = order or in_order([shape.id for shape in shapes], links, root)
    if not shapes:
        return Layout((), (), 0.0, 0.0)
    number = {shape.id: k for k, shape in enumerate(shapes)}
    pairs = [(number[source], number[target]) for source, target in links]
    y = heights(found.graph, found.columns, shapes, gap_px)
    return place(found.graph, y, shapes, pairs, rank_gap_px, found.crossings)
