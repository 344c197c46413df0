"""One level → the inside of an SVG: sizes, places, then every part drawn."""

from __future__ import annotations

from ..cards import Sketch
from ..collapse import Level
from ..layout import arrange, fold
from ..scene import Layout, Point
from .bundles import bundle_size, chip_size, draw_bundle, draw_chip
from .functions import draw_pill
from .legend import draw_legend
from .sizes import Box, Measured
from .states import States
from .storage import draw_frames, draw_tags
from .svg import UID, el
from .tensors import draw_card
from .wires import Wiring

MARGIN_PX = 12
RANK_GAP_PX = 27
PAGE_PX = 950  # the width of a notebook's page
SHRINKS_PX = 1180  # a picture of this width is still readable when it is shrunk to the page
NARROWEST_PX = 640


def measure(parts: Sketch) -> Measured:
    """The size of everything in a Sketch."""
    more = {bundle.id: bundle_size(bundle) for bundle in parts.bundles}
    return Measured(parts, more | {chip.id: chip_size(chip) for chip in parts.chips})


def layout(parts: Sketch, measured: Measured) -> tuple[Layout, list[int]]:
    """The Layout of a Sketch, and which of its wires are links there: not those inside one stack."""
    home = measured.home
    linked = [k for k, wire in enumerate(parts.wires) if home[wire.source] != home[wire.target]]
    links = [(home[parts.wires[k].source], home[parts.wires[k].target]) for k in linked]
    root = home.get(parts.root) if parts.root else None
    placed = arrange(measured.shapes, links, root, rank_gap_px=RANK_GAP_PX)
    return (placed if placed.width_px <= SHRINKS_PX else fold(placed, measured.shapes, PAGE_PX)), linked


def picture(level: Level, steps: int) -> tuple[str, tuple[float, float]]:
    """The drawing with every step inside, and its width and height."""
    parts = level.sketch
    measured = measure(parts)
    placed, linked = layout(parts, measured)
    width = max(placed.width_px, NARROWEST_PX)
    left = MARGIN_PX + (width - placed.width_px) / 2
    top = MARGIN_PX + 4
    centres = {name: (x + left, y + top) for name, (x, y) in placed.centres}
    boxes = measured.boxes(centres)
    routes = {k: tuple((x + left, y + top) for x, y in route) for k, route in zip(linked, placed.routes, strict=True)}
    legend, legend_height = draw_legend(parts, MARGIN_PX, placed.height_px + top + 30, width, steps)
    body = _defs() + draw_frames(parts, measured, boxes) + _parts(level, measured, boxes, routes, steps) + legend
    height = placed.height_px + top + MARGIN_PX + (legend_height + 14 if legend else 0)
    return body, (round(width + 2 * MARGIN_PX, 1), round(height, 1))


def _parts(
    level: Level, measured: Measured, boxes: dict[str, Box], routes: dict[int, tuple[Point, ...]], steps: int
) -> str:
    parts = level.sketch
    wiring = Wiring(parts, boxes, routes, steps)
    marks = {mark.target: mark for mark in parts.marks}
    states = States(parts, steps, level.about)
    cards = [draw_card(c, boxes[c.id], measured.cards[c.id], states.of_card(c), steps) for c in parts.cards]
    pills = [draw_pill(p, boxes[p.id], marks.get(p.id), states.of_pill(p), steps) for p in parts.pills]
    boxed = [draw_bundle(b, boxes[b.id], marks.get(b.id), states.of_bundle(b), steps) for b in parts.bundles]
    chips = [draw_chip(chip, boxes[chip.id], states.of_chip(chip)) for chip in parts.chips]
    return "".join([*wiring.draw(), *chips, *cards, *pills, *boxed, wiring.pins(), draw_tags(parts, boxes)])


def _defs() -> str:
    head = el("marker", el("path", class_="mk", d="M0 0L10 5L0 10z"), id=f"{UID}-head", viewBox="0 0 10 10", refX="8.5",
              refY=5, markerWidth=5, markerHeight=5, orient="auto")  # fmt: skip
    hatch = el("pattern", el("rect", class_="hl", width=2, height=7), id=f"{UID}-hatch", width=7, height=7,
               patternUnits="userSpaceOnUse", patternTransform="rotate(45)")  # fmt: skip
    return el("defs", head, hatch)
