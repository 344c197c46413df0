"""What the signs mean: an entry for each sign that occurs, in the order in which they first appear."""

from __future__ import annotations

from ..cards import Sketch
from ..languages import _, marked
from ..widths import columns
from .sizes import SMALL_PX
from .svg import UID, el, text

SAMPLE_PX, BETWEEN_PX, LINE_PX = 25, 20, 19


def first_steps(sketch: Sketch, steps: int) -> dict[str, int]:
    """Sign → the step at which it first shows; signs that never do are left out."""
    seen: dict[str, list[int]] = {
        "leaf": [card.born for card in sketch.cards if card.kind == "leaf"],
        "tensor": [card.born for card in sketch.cards if card.kind == "tensor"],
        "plain": [card.born for card in sketch.cards if card.kind == "plain"],
        "node": [pill.born for pill in sketch.pills if pill.kind == "node" and not pill.inplace],
        "op": [pill.born for pill in sketch.pills if pill.kind == "op"],
        "pin": [wire.born for wire in sketch.wires if wire.pins],
        "storage": [group.since for group in sketch.storages],
        "write": [pill.born for pill in sketch.pills if pill.inplace],
        "stale": [card.stale for card in sketch.cards if card.stale is not None]
        + [step for card in sketch.cards for step in card.overwritten],
        "order": [step for pill in sketch.pills for step, _ in pill.runs],
        "flow": [step for card in sketch.cards for step, g in card.gradients if not g.kept],
        "kept": [step for card in sketch.cards for step, g in card.gradients if g.kept],
        "error": [mark.since for mark in sketch.marks if mark.severity == "error"],
        "wrong": [mark.since for mark in sketch.marks if mark.severity == "wrong"],
    }
    found = {sign: min(where) for sign, where in seen.items() if where and min(where) < steps}
    return dict(sorted(found.items(), key=lambda item: (item[1], list(seen).index(item[0]))))


WORDS = {
    "leaf": marked("leaf tensor"),
    "tensor": marked("computed tensor"),
    "plain": marked("needs no gradient"),
    "node": marked("Function"),
    "op": marked("not recorded"),
    "pin": marked("saved, with its version"),
    "storage": marked("same bytes"),
    "write": marked("in-place write"),
    "stale": marked("overwritten"),
    "order": marked("order of backward"),
    "flow": marked("gradient passes"),
    "kept": marked("gradient is kept"),
    "error": marked("torch raised"),
    "wrong": marked("wrong, no error"),
}


def draw_legend(sketch: Sketch, left: float, top: float, width: float, steps: int) -> tuple[str, float]:
    """The entries in lines of at most `width`, and the height they take."""
    entries, x, y = [], 0.0, 0.0
    for sign, since in first_steps(sketch, steps).items():
        room = SAMPLE_PX + columns(_(WORDS[sign])) * SMALL_PX + BETWEEN_PX
        if x and x + room - BETWEEN_PX > width:
            x, y = 0.0, y + LINE_PX
        where = f"translate({left + x:.1f} {top + y:.1f})"
        entries.append(
            el(
                "g",
                SAMPLES[sign],
                text(_(WORDS[sign]), SAMPLE_PX, 3.5, "lg"),
                class_=f"lg-{sign}",
                transform=where,
                since=since,
            )
        )
        x += room
    return el("g", *entries, class_="legend"), (y + LINE_PX if entries else 0.0)


def _box(class_: str, *more: str, rx: float = 3) -> str:
    return el("g", el("rect", class_="bx", x=0, y=-6, width=18, height=12, rx=rx), *more, class_=class_)


SAMPLES = {
    "leaf": _box("leaf", el("rect", class_="bar", x=0, y=-6, width=4, height=12, rx=1.5)),
    "tensor": _box("tensor"),
    "plain": _box("plain"),
    "node": _box("fn node", rx=6),
    "op": _box("fn op", rx=6),
    "pin": el(
        "g",
        el("path", d="M1 -6.5h16a2 2 0 0 1 2 2v9a2 2 0 0 1 -2 2h-16a2 2 0 0 1 -2 -2v-9a2 2 0 0 1 2 -2z"),
        text("v0", 9, 3.4, "", anchor="middle"),
        class_="pin",
    ),
    "storage": el("g", el("rect", x=0, y=-7, width=18, height=14, rx=5), class_="storage"),
    "write": _box("fn ip", text("✎", 9, 4, "fnm", anchor="middle"), rx=6),
    "stale": _box("gone", el("rect", x=0, y=-6, width=18, height=12, rx=3, fill=f"url(#{UID}-hatch)")),
    "order": el("g", el("circle", r=7, cx=9, cy=0), text("1", 9, 3.7, "", anchor="middle"), class_="chk"),
    "flow": el("g", el("rect", class_="fill", x=0, y=-6, width=18, height=12, rx=3), class_="slot flow"),
    "kept": el("g", el("rect", class_="fill", x=0, y=-6, width=18, height=12, rx=3), class_="slot keep"),
    "error": el(
        "g", el("path", d="M9 -8l9 15h-18z"), el("path", class_="ex", d="M9 -2.5v5M9 4.8v.2"), class_="bang error"
    ),
    "wrong": el(
        "g", el("circle", cx=9, cy=0, r=7.5), el("path", class_="ex", d="M9 -4v5M9 3.6v.2"), class_="bang wrong"
    ),
}
