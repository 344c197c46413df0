"""Levels → drawings: sizes, places, then every part drawn; an open box is a frame around the drawing of its inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from seegrad.model.recording import Severity
from seegrad.model.scene import Layout, Point, SceneLevel, placed, with_parts
from seegrad.picture.sketch import Bundle, Card, Chip, Level, Pill, Sketch
from seegrad.picture.svg.cards import draw_card
from seegrad.picture.svg.elements import UID, el
from seegrad.picture.svg.legend import draw_legend
from seegrad.picture.svg.pills import draw_bundle, draw_chip, draw_header, draw_pill
from seegrad.picture.svg.sizes import PAD_PX, PAGE_PX, SCROLLS_PX, Box, Opening, SizedSketch, header_width
from seegrad.picture.svg.wires import Wiring, draw_storages, draw_tags

MARGIN_PX = 8
SIGN_UP_PX = 10  # the sign for NaN and infinity stands on a card's upper edge
NARROWEST_PX = 640
HEADER_PX, SIDE_PX = 38, 12  # of a frame, around the inside of an open box
LEGEND_PX = 18  # from the picture to the middle of the legend's first line
WIDEST_PX, HIGHEST_PX = 1060, 330  # of one pass
HIGHEST_OPEN_PX = 560  # of a box that is drawn alone
BADGE_PX = 6  # that hangs on the lower edge of a card
MOST_THINGS = 50  # more of them never fit: not even tried
NESTED_PX = 76  # by which each frame's inside is narrower than what stands around it

GHOST, ACTIVE, NORMAL, DONE, STALE, ERROR, WRONG = "g", "a", "n", "d", "s", "e", "w"
LETTERS: dict[Severity, str] = {"error": ERROR, "wrong": WRONG}

SharedParts = tuple[tuple[str, str], ...]


def pictures(
    levels: Sequence[Level], steps: int, *, alone: bool = False, until: int | None = None
) -> tuple[list[SceneLevel], SharedParts]:
    """Each level's drawing with the levels around it, or `alone`, and the parts that these drawings share.

    A picture without boxes shares nothing: its parts stand where they belong. `until`: the last step that is shown
    while a question is open.
    """
    drawers = {level.id: _Drawer(level, steps, alone=alone, until=until) for level in levels}
    drawn = [_whole([drawers[level.id]] if alone else _way_out(level, drawers)) for level in levels]
    parts = {name: markup for drawer in drawers.values() for name, markup in drawer.parts.items()}
    if len(levels) > 1:
        return drawn, tuple(parts.items())
    return [replace(level, body=with_parts(level.body, parts)) for level in drawn], ()


def fits(sketch: Sketch) -> bool:
    """Is this seen at once beside its code, without lines that begin anew at the left?"""
    if len(sketch.cards) + len(sketch.pills) + len(sketch.bundles) + len(sketch.chips) > MOST_THINGS:
        return False
    layout = SizedSketch(sketch, alone=True).layout(10 * PAGE_PX)
    return layout.width_px <= WIDEST_PX and layout.height_px <= HIGHEST_PX


def opens(level: Level) -> bool:
    """Is this seen at once, alone in its place?"""
    return SizedSketch(level.sketch, alone=True).layout(PAGE_PX + SCROLLS_PX).height_px <= HIGHEST_OPEN_PX


def _way_out(level: Level, drawers: dict[str, _Drawer]) -> list[_Drawer]:
    """From a level to the outermost one."""
    way = [drawers[level.id]]
    while way[-1].level.parent is not None:
        way.append(drawers[way[-1].level.parent])
    return way


def _whole(way: Sequence[_Drawer]) -> SceneLevel:
    """The first level drawn inside the next, and so on outwards; a legend for all of them."""
    opened: Opening | None = None
    for depth, drawer in zip(range(len(way) - 1, 0, -1), way, strict=False):
        opened = drawer.inside(opened, PAGE_PX - NESTED_PX * depth)
    level = way[0].level
    seen = [drawer.without(inside) for inside, drawer in zip(["", *(each.level.id for each in way)], way, strict=False)]
    body, (width, height), legend, asked = way[-1].outermost(opened, seen)
    return SceneLevel(level.id, level.label, level.parent, body, width, height, legend, asked)


class _Drawer:
    """Draws one level, whichever of its boxes is open: its parts look the same wherever they stand."""

    def __init__(self, level: Level, steps: int, *, alone: bool, until: int | None) -> None:
        self.level, self.steps, self.until = level, steps, steps if until is None else until
        self.sized = SizedSketch(level.sketch, alone=alone)
        self.states = _States(level.sketch, steps, level.about)
        self.parts = self._parts(level.sketch)

    def _parts(self, sketch: Sketch) -> dict[str, str]:
        """Every part at the origin."""
        marks = {mark.target: mark for mark in sketch.marks}
        states, steps, sizes = self.states, self.steps, self.sized.cards
        home = {name: Box(0.0, 0.0, width, height) for name, (width, height) in self.sized.size.items()}
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

    def inside(self, opened: Opening | None, widest_px: float) -> Opening:
        """This level as the inside of its own box. Lines come in beside its first chip, and leave beside its last."""
        sized = self.sized.opened(opened) if opened else self.sized
        layout = sized.layout(widest_px)
        width, height = max(layout.width_px, header_width(self.level.label)), layout.height_px
        body, boxes = self._drawn(sized, layout, (SIDE_PX + (width - layout.width_px) / 2, HEADER_PX))
        docks = {kind: [boxes[c.id].port for c in self.level.sketch.chips if c.kind == kind] for kind in ("in", "out")}
        middle = HEADER_PX + height / 2
        enters, leaves = min(docks["in"], default=middle), max(docks["out"], default=middle)
        size = round(width + 2 * SIDE_PX, 1), round(HEADER_PX + height + SIDE_PX, 1)
        return Opening(self.level.id, *size, enters, leaves, body)

    def outermost(
        self, opened: Opening | None, seen: Sequence[Sketch]
    ) -> tuple[str, tuple[float, float], float, float]:
        """The inside of the SVG, its width and height, the legend's below it, and its own while a question is open."""
        sized = self.sized.opened(opened) if opened else self.sized
        layout = sized.layout(PAGE_PX if opened else PAGE_PX + SCROLLS_PX)
        signed = not all(card.is_finite for card in self.level.sketch.cards)
        width, top = max(layout.width_px, NARROWEST_PX), MARGIN_PX + (SIGN_UP_PX if signed else 4)
        body, boxes = self._drawn(sized, layout, (MARGIN_PX + (width - layout.width_px) / 2, top))
        hanging = [card for card in self.level.sketch.cards if card.accumulates is not None or card.hooks]
        lowest = max((boxes[card.id].bottom for card in hanging if card.id in boxes), default=0.0)
        height = max(layout.height_px + top + (BADGE_PX if sized.alone else 0), lowest + BADGE_PX) + MARGIN_PX
        legend, legend_px = draw_legend(seen, MARGIN_PX, height + LEGEND_PX, width, self.steps)
        asked = round(min(height, self._lowest(boxes) + 2 * MARGIN_PX + PAD_PX), 1)
        return _defs() + body + legend, (round(width + 2 * MARGIN_PX, 1), round(height, 1)), legend_px, asked

    def _lowest(self, boxes: dict[str, Box]) -> float:
        """Down to where anything is shown while a question is open."""
        sketch = self.level.sketch
        parts: tuple[Card | Pill | Bundle | Chip, ...]
        parts = (*sketch.cards, *sketch.pills, *sketch.bundles, *sketch.chips)
        return max((boxes[part.id].bottom for part in parts if part.born <= self.until and part.id in boxes), default=0)

    def _drawn(self, sized: SizedSketch, layout: Layout, corner: Point) -> tuple[str, dict[str, Box]]:
        """Everything but the legend, from its top left corner on; and where each part stands."""
        boxes, opened = sized.boxes(layout, corner), sized.opening
        name = opened.id if opened else ""
        sketch = self.without(name)
        wiring = Wiring(sketch, boxes, sized.routes(layout, corner), self.steps)
        parts = [placed(part, boxes[part].x, boxes[part].y) for part in self.parts if part != name]
        frame = self._frame(opened, boxes[name]) if opened else ["", ""]
        storages, pins, tags = draw_storages(sketch, sized, boxes), wiring.pins(), draw_tags(sketch, boxes)
        return "".join([storages, frame[0], *wiring.draw(), *parts, frame[1], wiring.above(), pins, tags]), boxes

    def _frame(self, opened: Opening, box: Box) -> list[str]:
        """The frame that stands behind everything, and what stands in it: its header and the inside."""
        bundle = next(bundle for bundle in self.level.sketch.bundles if bundle.id == opened.id)
        behind = el("rect", class_="frame", x=box.x, y=box.y, width=box.width, height=box.height, rx=12)
        header = draw_header(bundle, box, self.states.of_bundle(bundle), self.level.id)
        inside = el("g", opened.body, transform=f"translate({box.x:.1f} {box.y:.1f})")
        return [behind, header + inside]


class _States:
    """The states of every part of one Sketch, found from the few steps at which each may change."""

    def __init__(self, sketch: Sketch, steps: int, about: dict[str, list[int]]) -> None:
        self.steps, self.about = steps, about
        self.marks = {mark.target: mark for mark in sketch.marks if mark.severity in LETTERS}

    def of_card(self, card: Card) -> str:
        """`g0 n3 a5`: a letter and the step from which it holds."""
        stale = self.steps if card.stale is None else card.stale
        return self._runs(card.id, card.born, stale, STALE, active_late=False)

    def of_pill(self, pill: Pill) -> str:
        """Like `of_card`; a Function whose saved tensors are freed is done, and hollow."""
        freed = self.steps if pill.freed is None else pill.freed
        return self._runs(pill.id, pill.born, freed, DONE, active_late=True)

    def of_bundle(self, bundle: Bundle) -> str:
        """A box is active while something inside it is, and done when all of it is."""
        freed = self.steps if bundle.freed is None else bundle.freed
        return self._runs(bundle.id, bundle.born, freed, DONE, active_late=True)

    def of_chip(self, chip: Chip) -> str:
        """A chip is there from the first line that it names on."""
        return self._runs(chip.id, chip.born, self.steps, NORMAL, active_late=True)

    def _runs(self, name: str, born: int, late: int, letter: str, *, active_late: bool) -> str:
        """Letters before and after the step `late`; `active_late`: may a part be active after it?"""
        about = set(self.about.get(name, ()))
        mark = self.marks.get(name)
        since = mark.since if mark else self.steps
        changes = {0, born, late, since, *about, *(step + 1 for step in about)}
        found: list[tuple[int, str]] = []
        for step in sorted(step for step in changes if step < self.steps):
            if step < born:
                now = GHOST
            elif mark is not None and step >= since:
                now = LETTERS[mark.severity]
            elif step in about and (active_late or step < late):
                now = ACTIVE
            else:
                now = letter if step >= late else NORMAL
            if not found or found[-1][1] != now:
                found.append((step, now))
        return " ".join(f"{letter}{step}" for step, letter in found)


def _defs() -> str:
    head = el("marker", el("path", class_="mk", d="M0 0L10 5L0 10z"), id=f"{UID}-head", viewBox="0 0 10 10", refX="8.5",
              refY=5, markerWidth=5, markerHeight=5, orient="auto")  # fmt: skip
    hatch = el("pattern", el("rect", class_="hl", width=2, height=7), id=f"{UID}-hatch", width=7, height=7,
               patternUnits="userSpaceOnUse", patternTransform="rotate(45)")  # fmt: skip
    old = el("pattern", el("rect", class_="hg", width=2, height=7), id=f"{UID}-old", width=7, height=7,
             patternUnits="userSpaceOnUse", patternTransform="rotate(45)")  # fmt: skip
    return el("defs", head, hatch, old)
