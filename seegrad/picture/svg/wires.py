"""What stands between and around the parts: lines with the gradient that runs back, tags, frames of one storage."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from seegrad.model.scene import Point
from seegrad.picture.sketch import Mark, Pin, Sketch, StorageGroup, Wire, at, is_finite, shorten
from seegrad.picture.svg.elements import UID, clean, curve, el, text
from seegrad.picture.svg.pills import alarm
from seegrad.picture.svg.sizes import FRAME_LABEL_PX, LABEL_PX, NUMBER_PX, PAD_PX, STACK_GAP_PX, Box, SizedSketch
from seegrad.words.languages import _, marked
from seegrad.words.widths import columns

PORT_PX = 16  # between two lines on one side of a part
PIN_PX = 18.0  # between two tags
UNDER_BADGE_PX = 3.5  # above the lower card: the upper one's `+=` and hooks hang down into the gap
LABEL_HIGH_PX = 8
TAG_PX = 22  # how far a tag reaches out before a Function
BESIDE_PX = 3  # a tag that is no further from where its line docks lies on it
TRAVELS = 3  # things that are told of one line; more of them are counted
FRAME_PORTS_PX = 32  # for all lines on one side of an open box
COUNTERS = {
    0: marked("no version counter"),
    1: marked("one version counter"),
    2: marked("two version counters"),
    3: marked("three version counters"),
}


class Wiring:
    """All lines of one picture. `routes` are the Layout's bend points, one for each Wire that it was given."""

    def __init__(self, sketch: Sketch, boxes: dict[str, Box], routes: dict[int, tuple[Point, ...]], steps: int) -> None:
        self.sketch, self.boxes, self.routes, self.steps = sketch, boxes, routes, steps
        self.marks = {mark.target: mark for mark in sketch.marks}
        self.freed = {pill.id: pill.freed for pill in sketch.pills}
        self.harmful = {pill.id for pill in sketch.pills if pill.harmful}
        self.cards = {card.id: card for card in sketch.cards}
        self.labels = {card.id: shorten(card.label, 10) for card in sketch.cards}
        self.labels_above: list[str] = []  # of lines
        self.flows: dict[tuple[str, str], set[int]] = defaultdict(set)
        for step, source, target in sketch.flows:
            self.flows[source, target].add(step)
        self.columns = _columns(boxes.values())
        self.leaves = self._ports("source")
        self.arrives = self._ports("target")
        self.tags = self._tags()
        self.gates = {k: y for (_, side), tags in self.tags.items() if side == "in" for k, _pin, (_x, y) in tags}

    def _ports(self, side: str) -> dict[int, float]:
        """Where each line docks: spread along the side, ordered by where the lines come from."""
        docked: dict[str, list[int]] = defaultdict(list)
        for k in self.routes:
            docked[getattr(self.sketch.wires[k], side)].append(k)
        other = "target" if side == "source" else "source"
        found = {}
        for name, wires in docked.items():
            box = self.boxes[name]
            wires.sort(key=lambda k: (self.boxes[getattr(self.sketch.wires[k], other)].port, k))
            room = FRAME_PORTS_PX if box.opening else box.height - 22
            span = min(room, PORT_PX * (len(wires) - 1))
            dock = box.leaves if side == "source" else box.port
            for place, k in enumerate(wires):
                found[k] = round(dock + (span * place / (len(wires) - 1) - span / 2 if len(wires) > 1 else 0), 1)
        return found

    def points(self, k: int) -> list[Point]:
        """The line's points, from the right side of its source to the left side of its target.

        It bends where it has passed the wider parts above and below that it would run under, and goes through its tag.
        """
        wire = self.sketch.wires[k]
        source, target = self.boxes[wire.source], self.boxes[wire.target]
        inner = list(self.routes[k][1:-1])
        if source.opening and len(inner) > 1 and inner[1][0] < inner[0][0]:  # round the corner at the height it leaves
            inner[0] = inner[0][0], self.leaves[k]
        starts, dock = (source.right, self.leaves[k]), (target.x, self.arrives[k])
        gate = self.gates.get(k, dock[1])
        ends = (target.x - TAG_PX, gate) if abs(gate - dock[1]) > BESIDE_PX else dock
        right = max(box.right for box in self._passed(source, starts[1], (inner or [ends])[0][1]))
        left = min(box.x for box in self._passed(target, ends[1], (inner or [starts])[-1][1]))
        before, after = [(right, starts[1])] * (right > source.right), [(left, ends[1])] * (left < ends[0])
        return [starts, *before, *inner, *after, ends, *[dock] * (ends != dock)]

    def _passed(self, box: Box, here: float, there: float) -> list[Box]:
        """Itself, and those of its column that stand between two heights."""
        low, high = min(here, there), max(here, there)
        return [box, *(each for each in self.columns[box.middle] if each.y < high and each.bottom > low)]

    def draw(self) -> list[str]:
        """Forward lines, then alarm and gradient above them; the labels are left for `above`.

        The newest line is the lowest: at no step does one that is still to come lie on one that is there.
        """
        lines: list[tuple[int, str]] = []
        forward, above = [], []
        for k, wire in enumerate(self.sketch.wires):
            if k not in self.routes:
                forward += self._stacked(wire)
                continue
            path = curve(self.points(k))
            lines.append((-wire.born, self._line(wire, path)))
            forward += self._signs(k, wire)
            mark = self._mark_on(wire)
            if mark is not None:
                above.append(el("path", class_=f"eb {mark.severity}", d=path, since=mark.since, data_w=_ends(wire)))
            back = curve(self.points(k)[::-1], back=True)
            above += self._gradient(wire, back)
        lowest_first = [line for _born, line in sorted(lines, key=lambda each: each[0])]
        return [el("g", *lowest_first, *forward, *above, class_="edges")]

    def _line(self, wire: Wire, path: str) -> str:
        """The line itself, which knows what goes over it; of a box's line the first few things."""
        more = len(wire.travels) - TRAVELS
        said = "\n".join(wire.travels if more <= 1 else (*wire.travels[:TRAVELS], f"+{more}"))
        class_ = self._class_of(wire)
        return el("path", class_=class_, d=path, since=wire.born, data_w=_ends(wire), data_t=said or None)

    def _stacked(self, wire: Wire) -> list[str]:
        """A line inside a stack, with the code that made the alias: straight down, or past what stands between."""
        upper, lower = self.boxes[wire.source], self.boxes[wire.target]
        near = lower.y - upper.bottom <= STACK_GAP_PX + 1
        beside = min(upper.x, lower.x) - 5
        here, there = upper.port + 12, lower.port
        down = f"M{upper.middle:.1f} {upper.bottom:.1f}V{lower.y:.1f}"
        up = f"M{upper.middle:.1f} {lower.y:.1f}V{upper.bottom:.1f}"
        past = f"M{upper.x:.1f} {here:.1f}H{beside:.1f}V{there:.1f}H{lower.x:.1f}"
        back = f"M{lower.x:.1f} {there:.1f}H{beside:.1f}V{here:.1f}H{upper.x:.1f}"
        parts = [self._line(wire, down if near else past)]
        parts += self._gradient(wire, up if near else back)
        if wire.kind == "alias":
            x, label = (lower.middle + 8, wire.label) if near else (lower.x + 4, self.labels[wire.source] + wire.label)
            self.labels_above.append(text(label, x, lower.y - UNDER_BADGE_PX, "lk", since=wire.born))
        if wire.kind == "out" and wire.label:
            parts.append(text(wire.label, lower.middle + 5, lower.y - 6, "nr", since=wire.born))
        if wire.cut:
            x, y = (upper.middle, (upper.bottom + lower.y) / 2) if near else (beside, (here + there) / 2)
            parts.append(el("path", class_="cut", d=f"M{x - 6:.1f} {y + 1:.1f}l12 -5m-12 9l12 -5", since=wire.born))
        return parts

    def _gradient(self, wire: Wire, back: str) -> list[str]:
        """The arrow of the gradient, seen in the steps in which it runs back over this line."""
        card = self.cards.get(wire.source) or self.cards.get(wire.target)
        broken = {True: "bk nf", False: "bk"}
        steps: dict[str, list[int]] = defaultdict(list)
        for step in sorted(self.flows.get((wire.source, wire.target), ())):
            gradient = at(card.gradients, step) if card else None
            sound = gradient is None or is_finite(gradient.preview, gradient.summary)
            steps[broken[not sound]].append(step)
        head = f"url(#{UID}-head)"
        return [
            el("path", class_=class_, d=back, data_at=" ".join(map(str, told)), data_w=_ends(wire), marker_end=head)
            for class_, told in sorted(steps.items())
        ]

    def _class_of(self, wire: Wire) -> str:
        if wire.writes:
            return "e ip hm" if {wire.source, wire.target} & self.harmful else "e ip"
        return "e al" if wire.kind == "alias" or wire.cut else "e lo" if wire.loose else "e"

    def _signs(self, k: int, wire: Wire) -> list[str]:
        """The number of an output; two strokes across a line on which no gradient comes back."""
        x, y = self.points(k)[0]
        if wire.kind == "out" and wire.label:
            return [text(wire.label, x + 4, y - 4, "nr", since=wire.born)]
        if wire.cut:
            self.labels_above.append(text(wire.label, *self._beside(k, wire.label), "lk", since=wire.born))
            return [el("path", class_="cut", d=f"M{x + 7:.1f} {y + 6:.1f}l5 -12m1 12l5 -12", since=wire.born)]
        return []

    def _beside(self, k: int, label: str) -> Point:
        """Where a line's label stands: where the line begins, else above the first level part of it that has room."""
        points, wide = self.points(k), columns(label) * NUMBER_PX
        level = [(x + 4, y - 3) for (x, y), (right, end) in pairwise(points) if y == end and right - x > wide + 8]
        places = [(points[0][0] + 4, points[0][1] - 8), *level]
        return next((place for place in places if not self._covers(place, wide)), places[0])

    def _covers(self, place: Point, wide: float) -> bool:
        """Would a label there lie on a part?"""
        x, y = place
        boxes = self.boxes.values()
        return any(box.x < x + wide and x < box.right and box.y < y and y - LABEL_HIGH_PX < box.bottom for box in boxes)

    def _mark_on(self, wire: Wire) -> Mark | None:
        """The Diagnosis whose saved tensor this line carries."""
        for pin in wire.pins:
            mark = self.marks.get(wire.target if pin.side == "in" else wire.source)
            if mark is not None and mark.severity != "note" and pin.storage == mark.storage:
                return mark
        return None

    def above(self) -> str:
        """The labels of the lines that `draw` has drawn: above the parts, since their rings reach out into the gaps."""
        return el("g", *self.labels_above, class_="edges")

    def pins(self) -> str:
        """Version tags: at the pill's entrance for an input, at its exit for its own result."""
        drawn = [
            self._pin(self.sketch.wires[k], pill, pin, place)
            for (pill, _side), tags in self.tags.items()
            for k, pin, place in tags
        ]
        return el("g", *drawn, class_="pins")

    def _tags(self) -> dict[tuple[str, str], list[tuple[int, Pin, Point]]]:
        """The tags on each side of each Function: whose line's, and where."""
        docked: dict[tuple[str, str], list[tuple[int, Pin, Point]]] = defaultdict(list)
        for k, wire in enumerate(self.sketch.wires):
            for pin in _distinct(wire.pins) if k in self.routes else ():
                enters = pin.side == "in"
                pill = wire.target if enters else wire.source
                place = (
                    (self.boxes[pill].x, self.arrives[k]) if enters else (self.boxes[pill].right + 28, self.leaves[k])
                )
                docked[pill, pin.side].append((k, pin, place))
        return {side: _apart(tags) for side, tags in docked.items()}

    def _pin(self, wire: Wire, pill: str, pin: Pin, place: Point) -> str:
        mark = self.marks.get(pill)
        bad = mark if mark is not None and mark.severity != "note" and pin.storage == mark.storage else None
        freed = self.freed.get(pill)
        until = self.steps - 1 if freed is None else freed - 1
        tag = self._tag(pin)
        where, ends = f"translate({place[0]:.1f} {place[1]:.1f})", _ends(wire)
        if bad is None:
            held = el("g", *tag, class_="pin", transform=where, since=wire.born, until=until, data_w=ends)
            struck = el("g", *tag, class_="pin free", transform=where, since=freed, data_w=ends)
            return held if freed is None else held + struck
        return el("g", *tag, class_="pin", transform=where, since=wire.born, until=bad.since - 1, data_w=ends) + el(
            "g", *tag, class_=f"pin bad {bad.severity}", transform=where, since=bad.since, data_w=ends
        )

    def _tag(self, pin: Pin) -> list[str]:
        label = "•" if pin.version is None else f"v{pin.version}"
        title = _("saved: {name}") if pin.version is None else _("saved: {name} at version {version}")
        title = title.format(name=pin.name, version=pin.version)
        return [
            el("title", clean(title)),
            el("path", d="M-22 -8h16a3 3 0 0 1 3 3v10a3 3 0 0 1 -3 3h-16a3 3 0 0 1 -3 -3v-10a3 3 0 0 1 3 -3z"),
            text(label, -14, 3.6, "", anchor="middle"),
        ]


def _apart(tags: list[tuple[int, Pin, Point]]) -> list[tuple[int, Pin, Point]]:
    """Tags in the order of their lines, none on another."""
    tags = sorted(tags, key=lambda tag: tag[2][1])
    lowest, heights = -math.inf, []
    for _k, _pin, (_x, y) in tags:
        lowest = max(y, lowest + PIN_PX)
        heights.append(lowest)
    too_low = (heights[-1] - tags[-1][2][1]) / 2
    return [(k, pin, (x, round(y - too_low, 1))) for (k, pin, (x, _y)), y in zip(tags, heights, strict=True)]


def _columns(boxes: Iterable[Box]) -> dict[float, list[Box]]:
    """Those that stand in one column, by the middle of each, which rounding has moved by a tenth of a pixel."""
    found: dict[float, list[Box]] = {}
    column: list[Box] = []
    for box in sorted(boxes, key=lambda box: box.middle):
        column = column if column and box.middle - column[-1].middle < 1 else []
        column.append(box)
        found[box.middle] = column
    return found


def _ends(wire: Wire) -> str:
    return f"{wire.source} {wire.target}"


def _distinct(pins: tuple[Pin, ...]) -> list[Pin]:
    seen: dict[tuple[int | None, str], Pin] = {}
    for pin in pins:
        seen.setdefault((pin.version, pin.side), pin)
    return list(seen.values())


def draw_storages(sketch: Sketch, sized: SizedSketch, boxes: dict[str, Box]) -> str:
    """One soft outline a stack; several on one storage carry its letter."""
    frames = []
    for k, group in enumerate(sketch.storages):
        homes = list(dict.fromkeys(sized.home[card] for card in group.cards))
        letter = chr(ord("A") + k % 26)
        alone = len(homes) == 1 and len(sketch.storages) == 1
        title = _("one storage") if alone else _("storage {letter}").format(letter=letter)
        for home in homes:
            members = sized.clusters[home].members if home in sized.clusters else (home,)
            frames.append(_storage(group, title, [boxes[name] for name in members]))
    return el("g", *frames, class_="storages")


def _storage(group: StorageGroup, title: str, boxes: list[Box]) -> str:
    left = min(box.x for box in boxes)
    right = max(box.right for box in boxes)
    if right - left < FRAME_LABEL_PX:
        left, right = (left + right - FRAME_LABEL_PX) / 2, (left + right + FRAME_LABEL_PX) / 2
    top, bottom = min(box.y for box in boxes) - LABEL_PX, max(box.bottom for box in boxes)
    counters = _(COUNTERS.get(group.counters, marked("{count} version counters"))).format(count=group.counters)
    return el(
        "g",
        el(
            "rect",
            x=left - PAD_PX,
            y=top - PAD_PX / 2,
            width=right - left + 2 * PAD_PX,
            height=bottom - top + PAD_PX * 1.5,
            rx=14,
        ),
        text(title, left, top + 8, "st"),
        text(counters, left, top + 20, "sc"),
        class_="storage",
        since=group.since,
    )


def draw_tags(sketch: Sketch, boxes: dict[str, Box]) -> str:
    """What is wrong, in a few words, right under the part it is about."""
    return el("g", *(_tag(mark, boxes[mark.target]) for mark in sketch.marks), class_="tags")


def _tag(mark: Mark, box: Box) -> str:
    width = max(map(columns, mark.lines)) * NUMBER_PX + 14
    height = 6 + 13 * len(mark.lines)
    aside = max(0.0, width / 2 + 1 - box.middle)  # a part at the picture's edge has no room for half of its tag
    lines = [text(line, aside, 4 + 13 * k, "", anchor="middle") for k, line in enumerate(mark.lines)]
    tag = el(
        "g",
        el("path", class_="tip", d="M-6 -8l6 -6 6 6z"),
        el("rect", x=aside - width / 2, y=-9, width=width, height=height, rx=5),
        *lines,
        class_=f"clash {mark.severity}",
        transform=f"translate({box.middle:.1f} {box.bottom + 17:.1f})",
        since=mark.since,
        data_w=mark.target,
    )
    if mark.target.startswith("t") and mark.severity != "note":
        sign = el("g", alarm(mark, 9), transform=f"translate({box.x:.1f} {box.y:.1f})")
        return tag + sign
    return tag
