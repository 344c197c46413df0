"""How much room each part takes. Text is measured by the fixed metrics of a monospaced face, never by a font."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

from seegrad.model.recording import Preview
from seegrad.model.scene import Shape
from seegrad.picture.sketch import Card, Cluster, Pill, Sketch
from seegrad.picture.svg.elements import ROW_PX
from seegrad.words.languages import _
from seegrad.words.widths import columns

NUMBER_PX = 6.35  # advance of one character of the 10.5 px face, rounded up
NAME_PX = 8.0  # of the 13 px bold face
SIGN_PX = 9.1  # of the 15 px bold face
SMALL_PX = 5.85  # of the 9.5 px face
HEAD_PX = 24
PILL_PX = 40
OVERHANG_PX = 20  # a tag may stick out by half of it on each side
PAD_PX = 9  # between a storage frame and what it holds
LABEL_PX = 30  # two lines above a storage frame
STACK_GAP_PX = 22
NARROWEST_PX = 92
SHARE_PX = 112  # `.grad` and `∂ 1 of 3` on one line


@dataclass(frozen=True, slots=True)
class CardSize:
    """One card: its box, the width of each column of numbers, and its rows."""

    width: float
    height: float
    columns: tuple[float, ...]
    rows: int
    changes: bool  # its numbers change while it is shown: a second block of rows
    slot: bool  # room for a gradient

    @property
    def slot_top(self) -> float:
        """Where the slot for the gradient begins, from the card's top."""
        return HEAD_PX + self.rows * ROW_PX + (self.rows * ROW_PX + 6 if self.changes else 0) + 5

    @property
    def slot_height(self) -> float:
        """The slot's caption and its rows."""
        return ROW_PX + self.rows * ROW_PX + 3


def card_size(card: Card) -> CardSize:
    """Room for every number that the card will ever show."""
    grids = [grid for _, grid in card.values if grid] + [g.preview for _, g in card.gradients if g.preview]
    widths = tuple(column * NUMBER_PX + 8 for column in _columns(grids))
    rows = max((len(grid) for grid in grids), default=1)
    changes = len(card.overwritten) > 0
    shown = max(columns(shape_text(shape)) for shape in (card.shape, *(g.shape for _, g in card.gradients)))
    width = max(sum(widths) + 16, columns(card.label) * NAME_PX + 56, shown * NUMBER_PX + 20, NARROWEST_PX)
    if card.shares:
        width = max(width, SHARE_PX if card.keeps else 0)
    slot = card.kind != "plain" or bool(card.gradients)
    size = CardSize(round(width, 1), 0, widths, rows, changes, slot)
    height = size.slot_top + 2 + (size.slot_height + 2 if slot else 0)
    return CardSize(size.width, height, widths, rows, changes, slot)


def _columns(grids: list[Preview]) -> list[int]:
    count = max((len(row) for grid in grids for row in grid), default=0)
    return [max((len(row[k]) for grid in grids for row in grid if k < len(row)), default=1) for k in range(count)]


def shape_text(shape: tuple[int, ...]) -> str:
    """The shape for a card that shows no numbers.

    >>> shape_text((3, 5)), shape_text(()), shape_text((0,))
    ('3×5', 'scalar', '0 (empty)')
    """
    if not shape:
        return _("scalar")
    sizes = "×".join(map(str, shape))
    return _("{sizes} (empty)").format(sizes=sizes) if 0 in shape else sizes


def pill_width(pill: Pill) -> float:
    """Wide enough for the Function's name and its sign."""
    return round(
        max(64.0, columns(pill.name) * NUMBER_PX + 16, columns(pill.sign) * SIGN_PX + (34 if pill.runs else 20)), 1
    )


@dataclass(frozen=True, slots=True)
class Frame:
    """The room that an open box takes. Lines come in and leave at `enters` and `leaves` below its top."""

    id: str
    width: float
    height: float
    enters: float
    leaves: float


@dataclass(frozen=True, slots=True)
class Box:
    """A part's place: top left corner and size. Lines dock half way down, or where the Frame says."""

    x: float
    y: float
    width: float
    height: float
    frame: Frame | None = None

    @property
    def port(self) -> float:
        """The height at which lines arrive."""
        return self.y + (self.frame.enters if self.frame else self.height / 2)

    @property
    def leaves(self) -> float:
        """The height at which lines leave."""
        return self.y + (self.frame.leaves if self.frame else self.height / 2)

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


class Measured:
    """A Sketch with the size of every part; knows which Shape of the Layout a part belongs to.

    `more` are the sizes of what is neither card nor pill.
    """

    def __init__(self, sketch: Sketch, more: dict[str, tuple[float, float]]) -> None:
        self.frame: Frame | None = None
        self.cards = {card.id: card_size(card) for card in sketch.cards}
        self.size: dict[str, tuple[float, float]] = {
            name: (size.width, size.height) for name, size in self.cards.items()
        }
        self.size |= {pill.id: (pill_width(pill), PILL_PX) for pill in sketch.pills}
        self.size |= more
        self._widen_stacks(sketch)
        self.framed = {card for group in sketch.storages for card in group.cards}
        self.marked = {mark.target: len(mark.lines) for mark in sketch.marks}
        self.tag_width = {mark.target: max(map(columns, mark.lines)) * 6.2 + 14 for mark in sketch.marks}
        self.clusters = {cluster.id: cluster for cluster in sketch.clusters}
        self.home = {name: cluster.id for cluster in sketch.clusters for name in cluster.members}
        self.home |= {name: name for name in self.size if name not in self.home}
        names = [card.id for card in sketch.cards] + [pill.id for pill in sketch.pills] + list(more)
        self.shapes = [self._shape(name) for name in dict.fromkeys(self.home[name] for name in names)]

    def with_frame(self, frame: Frame) -> Measured:
        """The same with one of its boxes opened: in its place stands the Frame."""
        opened = copy(self)
        opened.frame = frame
        opened.size = self.size | {frame.id: (frame.width, frame.height)}
        room = Shape(frame.id, frame.width, frame.enters, frame.height - frame.enters)
        opened.shapes = [room if shape.id == frame.id else shape for shape in self.shapes]
        return opened

    def _widen_stacks(self, sketch: Sketch) -> None:
        """Cards of one stack are equally wide."""
        for cluster in sketch.clusters:
            cards = [name for name in cluster.members if name in self.cards]
            width = max(self.cards[name].width for name in cards)
            for name in cards:
                self.cards[name] = replace(self.cards[name], width=width)
                self.size[name] = (width, self.cards[name].height)

    def _shape(self, name: str) -> Shape:
        if name in self.clusters:
            return self._stack(self.clusters[name])
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
        total = sum(self.size[name][1] + self._below(name) for name in cluster.members) + STACK_GAP_PX * (
            len(cluster.members) - 1
        )
        head = self.size[cluster.members[0]][1] / 2
        return Shape(cluster.id, width, head + pad + label, total - head + pad)

    def boxes(self, centres: dict[str, tuple[float, float]]) -> dict[str, Box]:
        """Where each card and pill stands, once the Shapes have their centres."""
        found: dict[str, Box] = {}
        for shape in self.shapes:
            x, y = centres[shape.id]
            members = self.clusters[shape.id].members if shape.id in self.clusters else (shape.id,)
            if self.frame and shape.id == self.frame.id:
                corner = round(x - shape.width_px / 2, 1), round(y - shape.above_px, 1)
                found[shape.id] = Box(*corner, self.frame.width, self.frame.height, self.frame)
                continue
            top = y - self.size[members[0]][1] / 2
            for name in members:
                width, height = self.size[name]
                found[name] = Box(round(x - width / 2, 1), round(top, 1), width, height)
                top += height + self._below(name) + STACK_GAP_PX
        return found


FRAME_LABEL_PX = 116.0  # "two version counters"
