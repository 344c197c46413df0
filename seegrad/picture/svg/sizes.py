"""How much room each part takes, and where it stands.

Text is measured by the fixed metrics of a monospaced face, never by a font.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from math import fsum

from seegrad.model.recording import Preview
from seegrad.model.scene import Layout, Point, Shape
from seegrad.picture.layout import Order, arrange, fold, in_order
from seegrad.picture.layout.rows import Piece, components, in_rows, own
from seegrad.picture.sketch import Bundle, Card, Chip, Cluster, Pill, Sketch
from seegrad.picture.svg.elements import ROW_PX
from seegrad.picture.svg.strips import NARROWEST_STRIP_PX
from seegrad.words.languages import _, counted
from seegrad.words.widths import columns

NUMBER_PX = 6.7  # advance of one character of the 11 px face, rounded up: nothing is smaller
NAME_PX = 8.0  # of the 13 px bold face
SIGN_PX = 9.1  # of the 15 px bold face
HEAD_PX = 24
PILL_PX = 40
DISC_FROM_RIGHT_PX = 9.0  # the middle of the number of a turn, from its pill's right edge
DISC_GAP_PX = 3  # from a pill's sign to it
OVERHANG_PX = 20  # a tag may stick out by half of it on each side
PAD_PX = 9  # between a storage frame and what it holds
LABEL_PX = 30  # two lines above a storage frame
STACK_GAP_PX = 22
NARROWEST_PX = 92
SHARE_PX = 116  # `.grad` and `1/3 came` or `wrong` on one line
FRAME_LABEL_PX = 136.0  # "two version counters"
CLOSE_PX = 14  # from one part to the next below it, in a level that is drawn alone
RANK_GAP_PX = 24
PIN_ROOM_PX = 12.0  # more, where the tag of a saved tensor stands in that gap
CUT_AROUND_PX = 12.0  # on both sides of the label of a line that is cut: the ring around a part reaches out
PAGE_PX = 950  # the width of a notebook's page
SCROLLS_PX = 230  # a picture wider than the page by this much scrolls: rather than in two bands it is read in one
ARROWS = {"in": "{name} →", "out": "→ {name}", "leaf": "{name}"}


@dataclass(frozen=True, slots=True)
class CardSize:
    """One card: its box, the width of each column of numbers, and its rows."""

    width: float
    height: float
    columns: tuple[float, ...]
    rows: int
    changes: bool  # its numbers change while it is shown: a second block of rows
    slot: bool  # room for a gradient
    slot_rows: int = 0  # in that room, where they aren't as many as above

    @property
    def columns_px(self) -> float:
        """All columns together: added exactly, since Python's `sum` rounds otherwise from 3.12 on."""
        return fsum(self.columns)

    @property
    def slot_top(self) -> float:
        """Where the slot for the gradient begins, from the card's top."""
        return HEAD_PX + self.rows * ROW_PX + (self.rows * ROW_PX + 6 if self.changes else 0) + 5

    @property
    def slot_height(self) -> float:
        """The slot's caption and its rows."""
        return ROW_PX + (self.slot_rows or self.rows) * ROW_PX + 3


def card_size(card: Card) -> CardSize:
    """Room for every number that the card will ever show."""
    grids = [grid for _, grid in card.values if grid] + [g.preview for _, g in card.gradients if g.preview]
    widths = tuple(column * NUMBER_PX + 8 for column in _columns(grids))
    rows = max((len(grid) for grid in grids), default=1)
    changes = len(card.overwritten) > 0
    shown = max(columns(shape_text(shape)) for shape in (card.shape, *(g.shape for _, g in card.gradients)))
    width = max(
        fsum(widths) + 16,
        columns(card.label) * NAME_PX + 29 + _widest_badge(card),
        shown * NUMBER_PX + 20,
        NARROWEST_PX,
    )
    slot_rows = 0
    if any(
        summary for _, summary in card.summaries
    ):  # the shape, and a heat strip below; of a gradient the strip alone
        rows, width = max(rows, 2), max(width, NARROWEST_STRIP_PX + 20)
        slot_rows = max((len(g.preview) for _, g in card.gradients if g.preview), default=1)
    if card.keeps and (card.shares or card.wrong_from is not None):
        width = max(width, SHARE_PX)
    slot = card.kind != "plain" or bool(card.gradients)
    size = CardSize(round(width, 1), 0, widths, rows, changes, slot, slot_rows)
    height = size.slot_top + 2 + (size.slot_height + 2 if slot else 0)
    return replace(size, height=height)


def _columns(grids: list[Preview]) -> list[int]:
    count = max((len(row) for grid in grids for row in grid), default=0)
    return [max((len(row[k]) for grid in grids for row in grid if k < len(row)), default=1) for k in range(count)]


def badge_width(label: str) -> float:
    """Of a card's version, which in a long loop has many digits."""
    return max(27.0, round(columns(label) * NUMBER_PX + 6, 1))


def _widest_badge(card: Card) -> float:
    return max((badge_width(f"✎v{version}") for _since, version in card.versions if version is not None), default=27.0)


def shape_text(shape: tuple[int, ...]) -> str:
    """The shape for a card that shows no numbers, as Python writes it, so that it can't be read as a number.

    >>> shape_text((3, 5)), shape_text((20,)), shape_text(()), shape_text((0,))
    ('(3, 5)', '(20,)', 'scalar', '(0,) empty')
    """
    if not shape:
        return _("scalar")
    return _("{sizes} empty").format(sizes=shape) if 0 in shape else str(shape)


def pill_width(pill: Pill) -> float:
    """Wide enough for the Function's name, and for its sign, in the middle, beside the number of its turn."""
    laps = dict(pill.laps)
    turns = [disc_width(disc_label(place, laps.get(step, 1))) for step, place in pill.runs]
    beside = 2 * (DISC_FROM_RIGHT_PX + max(turns) / 2 + DISC_GAP_PX) if turns else 20
    return round(max(64.0, columns(pill.name) * NUMBER_PX + 12, columns(pill.sign) * SIGN_PX + beside), 1)


def disc_label(place: int, lap: int) -> str:
    """The number of a turn; of a later backward call its own number stands before the dot."""
    return str(place) if lap == 1 else f"{lap}.{place}"


def disc_width(label: str) -> float:
    """A disc, or a wider tag where there are more than two digits."""
    return 16.0 if len(label) < 3 and "." not in label else NUMBER_PX * len(label) + 6


def header_width(label: str) -> float:
    """How wide the head of an open box is."""
    return columns(label) * 8.0 + 46


def functions(count: int) -> str:
    """`1 Function`, `12 Functions`."""
    return counted("{count} Function", "{count} Functions", count).format(count=count)


def bundle_text(bundle: Bundle) -> str:
    """What a box holds."""
    held = bundle.chore or functions(bundle.count)
    return _("{held}, frozen").format(held=held) if bundle.frozen else held


def bundle_size(bundle: Bundle) -> tuple[float, float]:
    """Width and height."""
    return max(116.0, columns(bundle.label) * 8.0 + 42, columns(bundle_text(bundle)) * NUMBER_PX + 26), 54.0


def chip_lines(chip: Chip) -> list[str]:
    """What a chip says, line by line."""
    return [ARROWS[chip.kind].format(name=label) for label in chip.labels]


def chip_size(chip: Chip) -> tuple[float, float]:
    """Width and height."""
    lines = chip_lines(chip)
    return max(map(columns, lines)) * NUMBER_PX + 18, 9.0 + 13 * len(lines)


@dataclass(frozen=True, slots=True)
class Opening:
    """An open box: its room, and the drawing of its inside. Lines come in and leave so far below its top."""

    id: str
    width: float
    height: float
    enters: float
    leaves: float
    body: str


@dataclass(frozen=True, slots=True)
class Box:
    """A part's place: top left corner and size. Lines dock half way down, or where the Opening says."""

    x: float
    y: float
    width: float
    height: float
    opening: Opening | None = None

    @property
    def port(self) -> float:
        """The height at which lines arrive."""
        return self.y + (self.opening.enters if self.opening else self.height / 2)

    @property
    def leaves(self) -> float:
        """The height at which lines leave."""
        return self.y + (self.opening.leaves if self.opening else self.height / 2)

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.width

    @property
    def middle(self) -> float:
        """Half way from left to right."""
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.height


def _banded(
    shapes: Sequence[Shape],
    links: Sequence[tuple[str, str]],
    order: Order | None,
    fits_px: float,
    band_px: float,
    gap_px: float = 24.0,
) -> Layout:
    """In one band, or in several where it doesn't fit: then tags have room where that makes the picture no higher."""
    tight = [replace(shape, before_px=0, after_px=0) for shape in shapes]
    folded: list[Layout] = []
    for each in (shapes, tight):
        placed = arrange(each, links, gap_px=gap_px, rank_gap_px=RANK_GAP_PX, order=order)
        if placed.width_px <= fits_px and not folded:
            return placed
        folded.append(placed if placed.width_px <= fits_px else fold(placed, each, band_px))
    return min(folded, key=lambda layout: layout.height_px)


def _births(parts: Sequence[Card | Chip | Pill | Bundle]) -> list[tuple[str, int]]:
    """Part and step, the first one last: of a stack that counts."""
    return sorted(((part.id, part.born) for part in parts), key=lambda birth: -birth[1])


class SizedSketch:
    """A Sketch with the size of every part; knows which Shape of the Layout a part belongs to.

    `linked` are the wires that aren't inside one stack: those for which the Layout has routes. Who stands beside and
    above whom, `order`, is the same however large the parts are.
    """

    def __init__(self, sketch: Sketch, *, alone: bool = False) -> None:
        self.opening: Opening | None = None
        self.alone = alone
        self.cards = {card.id: card_size(card) for card in sketch.cards}
        more = {bundle.id: bundle_size(bundle) for bundle in sketch.bundles}
        more |= {chip.id: chip_size(chip) for chip in sketch.chips}
        self.size: dict[str, tuple[float, float]] = {
            name: (size.width, size.height) for name, size in self.cards.items()
        }
        self.size |= {pill.id: (pill_width(pill), PILL_PX) for pill in sketch.pills}
        self.size |= more
        self._widen_stacks(sketch)
        self.framed = {card for group in sketch.storages for card in group.cards}
        self.marked = {mark.target: len(mark.lines) for mark in sketch.marks}
        self.tag_width = {mark.target: max(map(columns, mark.lines)) * NUMBER_PX + 14 for mark in sketch.marks}
        self.clusters = {cluster.id: cluster for cluster in sketch.clusters}
        self.home = {name: cluster.id for cluster in sketch.clusters for name in cluster.members}
        self.home |= {name: name for name in self.size if name not in self.home}
        self.beside = self._beside(sketch)
        names = [card.id for card in sketch.cards] + [pill.id for pill in sketch.pills] + list(more)
        self.shapes = [self._shape(name) for name in dict.fromkeys(self.home[name] for name in names)]
        ends = [(self.home[wire.source], self.home[wire.target]) for wire in sketch.wires]
        self.linked = tuple(k for k, (source, target) in enumerate(ends) if source != target)
        self.links = tuple(ends[k] for k in self.linked)
        self.born = {self.home[name]: step for name, step in _births((*sketch.cards, *sketch.chips))}
        self.ran = {self.home[name]: step for name, step in _births((*sketch.pills, *sketch.bundles))}
        self.root = self.home.get(sketch.root) if sketch.root else None
        self.order = None if alone else in_order([shape.id for shape in self.shapes], self.links, self.root)

    def opened(self, opening: Opening) -> SizedSketch:
        """The same with one of its boxes open."""
        sized = copy(self)
        sized.opening = opening
        sized.size = self.size | {opening.id: (opening.width, opening.height)}
        room = Shape(opening.id, opening.width, opening.enters, opening.height - opening.enters)
        sized.shapes = [room if shape.id == opening.id else shape for shape in self.shapes]
        return sized

    def layout(self, widest_px: float = PAGE_PX + SCROLLS_PX) -> Layout:
        """Where each Shape stands, in bands where the picture would be wider than `widest_px`."""
        if self.alone:
            return self._apart(widest_px)
        return _banded(self.shapes, self.links, self.order, widest_px, min(widest_px, PAGE_PX))

    def _apart(self, widest_px: float) -> Layout:
        """What no line joins in the order in which it ran, such as first values, graph, update: closer together."""
        pieces = []
        joined = components([shape.id for shape in self.shapes], self.links)
        for names in sorted(joined, key=self._began):
            shapes, numbers = own(names, self.shapes, self.links)
            links = [self.links[k] for k in numbers]
            order = in_order([shape.id for shape in shapes], links, self.root if self.root in names else None)
            fits_px = max(widest_px - SCROLLS_PX / 2, PAGE_PX)
            pieces.append(Piece(_banded(shapes, links, order, fits_px, PAGE_PX, CLOSE_PX), tuple(numbers)))
        return in_rows(pieces, PAGE_PX + SCROLLS_PX / 2, RANK_GAP_PX)

    def _began(self, names: Sequence[str]) -> int:
        """When the first of them ran; of tensors alone, when the first was there: a leaf is there long before."""
        return min([self.ran[name] for name in names if name in self.ran] or [self.born[name] for name in names])

    def _widen_stacks(self, sketch: Sketch) -> None:
        """Cards of one stack are equally wide; there may be none, where writes alone hang on a Function."""
        for cluster in sketch.clusters:
            cards = [name for name in cluster.members if name in self.cards]
            width = max((self.cards[name].width for name in cards), default=0.0)
            for name in cards:
                self.cards[name] = replace(self.cards[name], width=width)
                self.size[name] = (width, self.cards[name].height)

    def _beside(self, sketch: Sketch) -> dict[tuple[str, str], float]:
        """More room that a side needs, by Shape and side: for tags, and for what stands on a line that is cut."""
        room: dict[tuple[str, str], float] = defaultdict(float)
        for wire in sketch.wires:
            source, target = self.home[wire.source], self.home[wire.target]
            wanted = [(target if pin.side == "in" else source, pin.side, PIN_ROOM_PX) for pin in wire.pins]
            if wire.cut and source != target:
                wanted.append((source, "out", columns(wire.label) * NUMBER_PX + CUT_AROUND_PX - RANK_GAP_PX))
            for name, side, px in wanted:
                room[name, side] = max(room[name, side], px)
        return room

    def _shape(self, name: str) -> Shape:
        before, after = (self.beside[name, side] for side in ("in", "out"))
        shape = self._stack(self.clusters[name]) if name in self.clusters else self._single(name)
        return replace(shape, before_px=before, after_px=after)

    def _single(self, name: str) -> Shape:
        width, height = self.size[name]
        extra = self._below(name)
        if name in self.framed:
            width = max(width, FRAME_LABEL_PX) + 2 * PAD_PX
            return Shape(name, width, height / 2 + PAD_PX + LABEL_PX, height / 2 + PAD_PX + extra)
        return Shape(name, max(width, self.tag_width.get(name, 0.0) - OVERHANG_PX), height / 2, height / 2 + extra)

    def _below(self, name: str) -> float:
        """Room for the tag under a marked part."""
        return 14.0 + 13 * self.marked[name] if name in self.marked else 0.0

    def _stack(self, cluster: Cluster) -> Shape:
        framed = any(name in self.framed for name in cluster.members)
        pad, label = (PAD_PX, LABEL_PX) if framed else (0, 0)
        width = max(self.size[name][0] for name in cluster.members)
        tags = max(self.tag_width.get(name, 0.0) for name in cluster.members) - OVERHANG_PX
        width = max(width, tags, FRAME_LABEL_PX if framed else 0.0) + 2 * pad
        total = fsum(self.size[name][1] + self._below(name) for name in cluster.members) + STACK_GAP_PX * (
            len(cluster.members) - 1
        )
        head = self.size[cluster.members[0]][1] / 2
        return Shape(cluster.id, width, head + pad + label, total - head + pad)

    def boxes(self, layout: Layout, corner: Point = (0.0, 0.0)) -> dict[str, Box]:
        """Where each part stands, when the Layout begins at `corner`."""
        found: dict[str, Box] = {}
        centres = {name: (x + corner[0], y + corner[1]) for name, (x, y) in layout.centres}
        for shape in self.shapes:
            x, y = centres[shape.id]
            members = self.clusters[shape.id].members if shape.id in self.clusters else (shape.id,)
            if self.opening and shape.id == self.opening.id:
                left, top = round(x - shape.width_px / 2, 1), round(y - shape.above_px, 1)
                found[shape.id] = Box(left, top, self.opening.width, self.opening.height, self.opening)
                continue
            top = y - self.size[members[0]][1] / 2
            for name in members:
                width, height = self.size[name]
                found[name] = Box(round(x - width / 2, 1), round(top, 1), width, height)
                top += height + self._below(name) + STACK_GAP_PX
        return found

    def routes(self, layout: Layout, corner: Point) -> dict[int, tuple[Point, ...]]:
        """The bend points of each wire that has a route, when the Layout begins at `corner`."""
        left, top = corner
        routes = zip(self.linked, layout.routes, strict=True)
        return {k: tuple((x + left, y + top) for x, y in route) for k, route in routes}
