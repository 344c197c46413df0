"""Levels → drawings: sizes, places, then every part drawn; an open box is a frame around the drawing of its inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from seegrad.model.scene import PART, Layout, Point, SceneLevel, with_parts
from seegrad.picture.layout import Order, arrange, fold, in_order
from seegrad.picture.sketch import Level, Sketch
from seegrad.picture.svg.bundles import bundle_size, chip_size, draw_bundle, draw_chip, draw_header, header_width
from seegrad.picture.svg.cards import draw_card
from seegrad.picture.svg.elements import UID, el
from seegrad.picture.svg.legend import draw_legend
from seegrad.picture.svg.pills import draw_pill
from seegrad.picture.svg.sizes import Box, Frame, Measured
from seegrad.picture.svg.states import States
from seegrad.picture.svg.storage import draw_frames, draw_tags
from seegrad.picture.svg.wires import Wiring

MARGIN_PX = 12
RANK_GAP_PX = 27
PAGE_PX = 950  # the width of a notebook's page
SHRINKS_PX = 230  # a picture wider than the page by this much is still readable when it is shrunk to the page
NARROWEST_PX = 640
HEADER_PX, SIDE_PX = 38, 12  # of a frame, around the inside of an open box
LEGEND_PX = 18  # from the picture to the middle of the legend's first line
NESTED_PX = 76  # by which each frame's inside is narrower than what stands around it

SharedParts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """An open box: the room that its inside takes, and the drawing of it."""

    frame: Frame
    body: str


def measure(parts: Sketch) -> Measured:
    """The size of everything in a Sketch."""
    more = {bundle.id: bundle_size(bundle) for bundle in parts.bundles}
    return Measured(parts, more | {chip.id: chip_size(chip) for chip in parts.chips})


@dataclass(frozen=True, slots=True)
class Plan:
    """What of a Layout is the same however large the parts are. `linked`: the wires that aren't inside one stack."""

    linked: tuple[int, ...]
    links: tuple[tuple[str, str], ...]
    order: Order


def plan(parts: Sketch, measured: Measured) -> Plan:
    """Who stands beside and above whom."""
    home = measured.home
    linked = tuple(k for k, wire in enumerate(parts.wires) if home[wire.source] != home[wire.target])
    links = tuple((home[parts.wires[k].source], home[parts.wires[k].target]) for k in linked)
    root = home.get(parts.root) if parts.root else None
    return Plan(linked, links, in_order([shape.id for shape in measured.shapes], links, root))


def layout(plan: Plan, measured: Measured, widest_px: float = PAGE_PX + SHRINKS_PX) -> Layout:
    """The Layout, in bands where it would be wider than `widest_px`."""
    placed = arrange(measured.shapes, plan.links, rank_gap_px=RANK_GAP_PX, order=plan.order)
    return placed if placed.width_px <= widest_px else fold(placed, measured.shapes, min(widest_px, PAGE_PX))


def pictures(levels: Sequence[Level], steps: int) -> tuple[list[SceneLevel], SharedParts]:
    """Each level's drawing with the levels around it, and the parts that these drawings share.

    A picture without boxes shares nothing: its parts stand where they belong.
    """
    drawers = {level.id: _Drawer(level, steps) for level in levels}
    drawn = [_whole(_way_out(level, drawers)) for level in levels]
    parts = {name: markup for drawer in drawers.values() for name, markup in drawer.parts.items()}
    if len(levels) > 1:
        return drawn, tuple(parts.items())
    return [replace(level, body=with_parts(level.body, parts)) for level in drawn], ()


def _way_out(level: Level, drawers: dict[str, _Drawer]) -> list[_Drawer]:
    """From a level to the outermost one."""
    way = [drawers[level.id]]
    while way[-1].level.parent is not None:
        way.append(drawers[way[-1].level.parent])
    return way


def _whole(way: Sequence[_Drawer]) -> SceneLevel:
    """The first level drawn inside the next, and so on outwards; a legend for all of them."""
    opened: Opened | None = None
    for depth, drawer in zip(range(len(way) - 1, 0, -1), way, strict=False):
        opened = drawer.inside(opened, PAGE_PX - NESTED_PX * depth)
    level = way[0].level
    seen = [drawer.without(inside) for inside, drawer in zip(["", *(each.level.id for each in way)], way, strict=False)]
    body, (width, height), legend = way[-1].outermost(opened, seen)
    return SceneLevel(level.id, level.label, level.parent, body, width, height, legend)


class _Drawer:
    """Draws one level, whichever of its boxes is open: its parts look the same wherever they stand."""

    def __init__(self, level: Level, steps: int) -> None:
        self.level, self.steps = level, steps
        self.measured = measure(level.sketch)
        self.plan = plan(level.sketch, self.measured)
        self.states = States(level.sketch, steps, level.about)
        self.parts = self._parts(level.sketch)

    def _parts(self, sketch: Sketch) -> dict[str, str]:
        """Every part at the origin."""
        marks = {mark.target: mark for mark in sketch.marks}
        states, steps, sizes = self.states, self.steps, self.measured.cards
        home = {name: Box(0.0, 0.0, width, height) for name, (width, height) in self.measured.size.items()}
        found = {c.id: draw_chip(c, home[c.id], states.of_chip(c)) for c in sketch.chips}
        found |= {c.id: draw_card(c, home[c.id], sizes[c.id], states.of_card(c), steps) for c in sketch.cards}
        found |= {p.id: draw_pill(p, home[p.id], marks.get(p.id), states.of_pill(p), steps) for p in sketch.pills}
        boxes = sketch.bundles
        return found | {b.id: draw_bundle(b, home[b.id], marks.get(b.id), states.of_bundle(b), steps) for b in boxes}

    def without(self, name: str) -> Sketch:
        """The Sketch without one of its boxes: what of it is drawn as it is when that box is open."""
        sketch = self.level.sketch
        return replace(
            sketch,
            bundles=tuple(bundle for bundle in sketch.bundles if bundle.id != name),
            marks=tuple(mark for mark in sketch.marks if mark.target != name),
        )

    def inside(self, opened: Opened | None, widest_px: float) -> Opened:
        """This level as the inside of its own box. Lines come in beside its first chip, and leave beside its last."""
        placing = self._placing(opened, widest_px)
        width, height = max(placing.layout.width_px, header_width(self.level.label)), placing.layout.height_px
        body, boxes = self._drawn(placing, (SIDE_PX + (width - placing.layout.width_px) / 2, HEADER_PX), opened)
        docks = {kind: [boxes[c.id].port for c in self.level.sketch.chips if c.kind == kind] for kind in ("in", "out")}
        middle = HEADER_PX + height / 2
        enters, leaves = min(docks["in"], default=middle), max(docks["out"], default=middle)
        size = round(width + 2 * SIDE_PX, 1), round(HEADER_PX + height + SIDE_PX, 1)
        return Opened(Frame(self.level.id, *size, enters, leaves), body)

    def outermost(self, opened: Opened | None, seen: Sequence[Sketch]) -> tuple[str, tuple[float, float], float]:
        """The inside of the SVG, its width and height, and the height of a legend below it for all that is seen."""
        placing = self._placing(opened, PAGE_PX if opened else PAGE_PX + SHRINKS_PX)
        placed = placing.layout
        width, top = max(placed.width_px, NARROWEST_PX), MARGIN_PX + 4
        body, _ = self._drawn(placing, (MARGIN_PX + (width - placed.width_px) / 2, top), opened)
        height = placed.height_px + top + MARGIN_PX
        legend, legend_px = draw_legend(seen, MARGIN_PX, height + LEGEND_PX, width, self.steps)
        return _defs() + body + legend, (round(width + 2 * MARGIN_PX, 1), round(height, 1)), legend_px

    def _placing(self, opened: Opened | None, widest_px: float) -> _Placing:
        measured = self.measured.with_frame(opened.frame) if opened else self.measured
        return _Placing(measured, layout(self.plan, measured, widest_px), self.plan.linked)

    def _drawn(self, placing: _Placing, corner: Point, opened: Opened | None) -> tuple[str, dict[str, Box]]:
        """Everything but the legend, from its top left corner on; and where each part stands."""
        boxes, routes = placing.at(corner)
        name = opened.frame.id if opened else ""
        sketch = self.without(name)
        wiring = Wiring(sketch, boxes, routes, self.steps)
        parts = [f"{PART}{part} {boxes[part].x:.1f} {boxes[part].y:.1f}{PART}" for part in self.parts if part != name]
        frame = self._frame(opened, boxes[name]) if opened else ["", ""]
        pins, tags = wiring.pins(), draw_tags(sketch, boxes)
        storages = draw_frames(sketch, placing.measured, boxes)
        return "".join([storages, frame[0], *wiring.draw(), *parts, frame[1], pins, tags]), boxes

    def _frame(self, opened: Opened, box: Box) -> list[str]:
        """The frame that stands behind everything, and what stands in it: its header and the inside."""
        bundle = next(bundle for bundle in self.level.sketch.bundles if bundle.id == opened.frame.id)
        behind = el("rect", class_="frame", x=box.x, y=box.y, width=box.width, height=box.height, rx=12)
        header = draw_header(bundle, box, self.states.of_bundle(bundle), self.level.id)
        inside = el("g", opened.body, transform=f"translate({box.x:.1f} {box.y:.1f})")
        return [behind, header + inside]


@dataclass(frozen=True, slots=True)
class _Placing:
    """Where everything in a Sketch stands; `linked` are the wires that the Layout has routes for, in its order."""

    measured: Measured
    layout: Layout
    linked: tuple[int, ...]

    def at(self, corner: Point) -> tuple[dict[str, Box], dict[int, tuple[Point, ...]]]:
        """Each part's place, and the bend points of each wire, when the Layout begins at `corner`."""
        left, top = corner
        boxes = self.measured.boxes({name: (x + left, y + top) for name, (x, y) in self.layout.centres})
        routes = zip(self.linked, self.layout.routes, strict=True)
        return boxes, {k: tuple((x + left, y + top) for x, y in route) for k, route in routes}


def _defs() -> str:
    head = el("marker", el("path", class_="mk", d="M0 0L10 5L0 10z"), id=f"{UID}-head", viewBox="0 0 10 10", refX="8.5",
              refY=5, markerWidth=5, markerHeight=5, orient="auto")  # fmt: skip
    hatch = el("pattern", el("rect", class_="hl", width=2, height=7), id=f"{UID}-hatch", width=7, height=7,
               patternUnits="userSpaceOnUse", patternTransform="rotate(45)")  # fmt: skip
    return el("defs", head, hatch)
