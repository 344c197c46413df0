"""Parts of a picture that no line joins, side by side in rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seegrad.model.scene import Layout, Point, Shape


@dataclass(frozen=True, slots=True)
class Piece:
    """What hangs together: its Layout, and the numbers of its links in the whole picture."""

    layout: Layout
    links: tuple[int, ...]


def components(names: Sequence[str], links: Sequence[tuple[str, str]]) -> list[list[str]]:
    """The names that lines join, in the order given.

    >>> components(["a", "b", "c"], [("a", "c")])
    [['a', 'c'], ['b']]
    """
    head = {name: name for name in names}

    def top(name: str) -> str:
        while head[name] != name:
            head[name] = name = head[head[name]]
        return name

    for source, target in links:
        head[top(target)] = top(source)
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(top(name), []).append(name)
    return list(found.values())


def in_rows(pieces: Sequence[Piece], widest_px: float, gap_px: float) -> Layout:
    """Pieces side by side, in rows no wider than `widest_px`, each in the middle of its row's height.

    >>> one = Piece(Layout((("a", (5, 5)),), (), 10, 10), ())
    >>> in_rows([one, one], 100, 4).width_px
    24.0
    """
    rows: list[list[Piece]] = []
    width = 0.0
    for piece in pieces:
        if not rows or width + gap_px + piece.layout.width_px > widest_px:
            rows.append([])
            width = -gap_px
        rows[-1].append(piece)
        width += gap_px + piece.layout.width_px
    centres: list[tuple[str, Point]] = []
    routes: dict[int, tuple[Point, ...]] = {}
    top, widest = 0.0, 0.0
    for row in rows:
        left, high = 0.0, max(piece.layout.height_px for piece in row)
        for piece in row:
            down = round(top + (high - piece.layout.height_px) / 2, 1)
            centres += [(name, (x + left, y + down)) for name, (x, y) in piece.layout.centres]
            for number, route in zip(piece.links, piece.layout.routes, strict=True):
                routes[number] = tuple((x + left, y + down) for x, y in route)
            left += piece.layout.width_px + gap_px
        widest = max(widest, left - gap_px)
        top += high + gap_px
    crossings = sum(piece.layout.crossings for piece in pieces)
    return Layout(tuple(centres), tuple(routes[k] for k in sorted(routes)), widest, top - gap_px, crossings)


def own(
    piece: Sequence[str], shapes: Sequence[Shape], links: Sequence[tuple[str, str]]
) -> tuple[list[Shape], list[int]]:
    """A component's Shapes, and the numbers of its links."""
    names = set(piece)
    return [s for s in shapes if s.id in names], [k for k, (source, _target) in enumerate(links) if source in names]
