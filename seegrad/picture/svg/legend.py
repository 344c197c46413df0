"""What the signs mean: an entry for each sign that occurs, in the order in which they first appear."""

from __future__ import annotations

from collections.abc import Sequence

from seegrad.picture.sketch import Sketch
from seegrad.picture.svg.elements import OLD, el, text
from seegrad.picture.svg.sizes import NUMBER_PX
from seegrad.words.languages import _, marked
from seegrad.words.widths import columns

SAMPLE_PX, BETWEEN_PX, LINE_PX, UNDER_PX = 25, 20, 19, 14


def first_steps(sketches: Sequence[Sketch], steps: int) -> dict[str, int]:
    """Sign → the step at which it first shows in one of the Sketches; signs that never do are left out."""
    seen: dict[str, list[int]] = {}
    for sketch in sketches:
        for sign, where in _steps_of(sketch).items():
            seen.setdefault(sign, []).extend(where)
    seen["open"] = [0] * (len(sketches) - 1)
    found = {sign: min(where) for sign, where in seen.items() if where and min(where) < steps}
    return dict(sorted(found.items(), key=lambda item: (item[1], list(seen).index(item[0]))))


def _steps_of(sketch: Sketch) -> dict[str, list[int]]:
    """Sign → the steps at which it may first show in one Sketch."""
    freed = {pill.id: pill.freed for pill in sketch.pills if pill.freed is not None}
    return {
        "leaf": [card.born for card in sketch.cards if card.kind == "leaf"],
        "tensor": [card.born for card in sketch.cards if card.kind == "tensor"],
        "plain": [card.born for card in sketch.cards if card.kind == "plain"],
        "root": [card.born for card in sketch.cards if card.root],
        "node": [pill.born for pill in sketch.pills if pill.kind == "node" and not pill.inplace],
        "custom": [pill.born for pill in sketch.pills if pill.custom],
        "second": [pill.born for pill in sketch.pills if pill.of_gradient],
        "heat": [step for card in sketch.cards for step, summary in card.summaries if summary]
        + [step for card in sketch.cards for step, gradient in card.gradients if gradient.summary],
        "group": [bundle.born for bundle in sketch.bundles],
        "chip": [chip.born for chip in sketch.chips if chip.kind == "leaf"],
        "way": [chip.born for chip in sketch.chips if chip.kind != "leaf"],
        "op": [pill.born for pill in sketch.pills if pill.kind == "op" and not pill.off]
        + [bundle.born for bundle in sketch.bundles if bundle.off],
        "off": [pill.born for pill in sketch.pills if pill.off],
        "loose": [wire.born for wire in sketch.wires if wire.loose],
        "cut": [wire.born for wire in sketch.wires if wire.cut],
        "output": [wire.born for wire in sketch.wires if wire.kind == "out" and wire.label],
        "pin": [wire.born for wire in sketch.wires if any(pin.version is not None for pin in wire.pins)],
        "bare": [wire.born for wire in sketch.wires if any(pin.version is None for pin in wire.pins)],
        "free": [freed[wire.target] for wire in sketch.wires if wire.pins and wire.target in freed]
        + [freed[wire.source] for wire in sketch.wires if wire.pins and wire.source in freed],
        "hook": [max(hook.frame, card.born) for card in sketch.cards for hook in card.hooks]
        + [max(hook.frame, pill.born) for pill in sketch.pills for hook in pill.hooks],
        "accumulate": [card.accumulates for card in sketch.cards if card.accumulates is not None],
        "storage": [group.since for group in sketch.storages],
        "write": [pill.born for pill in sketch.pills if pill.inplace],
        "moved": [step for card in sketch.cards for step in card.moved],
        "stale": [card.stale for card in sketch.cards if card.stale is not None]
        + [step for card in sketch.cards for step in card.overwritten],
        "order": [step for pill in sketch.pills for step, lap in pill.laps if lap == 1],
        "again": [step for pill in sketch.pills for step, lap in pill.laps if lap > 1],
        "share": [step for card in sketch.cards for step, _ in card.shares],
        "flow": [step for card in sketch.cards for step, g in card.gradients if not g.kept],
        "kept": [step for card in sketch.cards for step, g in card.gradients if g.kept],
        "retain": [card.keeps_from or 0 for card in sketch.cards if card.is_retained],
        "run": [step for bundle in sketch.bundles for step, _ in bundle.ran],
        "done": [pill.freed for pill in sketch.pills if pill.freed is not None],
        "nan": [step for card in sketch.cards for step in card.broken],
        "error": [mark.since for mark in sketch.marks if mark.severity == "error"],
        "wrong": [mark.since for mark in sketch.marks if mark.severity == "wrong"],
    }


WORDS = {
    "leaf": marked("leaf tensor"),
    "tensor": marked("computed tensor"),
    "plain": marked("needs no gradient"),
    "root": marked("backward starts here"),
    "node": marked("Function"),
    "custom": marked("custom Function"),
    "second": marked("Function of a gradient"),
    "heat": marked("numbers: − 0 +"),
    "group": marked("several Functions: click to open"),
    "open": marked("open: click its name to close"),
    "chip": marked("leaf, drawn elsewhere"),
    "way": marked("where a line goes on: click"),
    "op": marked("not recorded"),
    "off": marked("gradients were off"),
    "loose": marked("result without gradient"),
    "cut": marked("no gradient comes back"),
    "output": marked("number of the output"),
    "free": marked("freed after backward"),
    "hook": marked("hook"),
    "accumulate": marked("AccumulateGrad: adds to .grad"),
    "again": marked("order of a later backward"),
    "share": marked("gradients that have come"),
    "retain": marked("kept by retain_grad()"),
    "pin": marked("saved, with its version"),
    "bare": marked("saved, without a version"),
    "storage": marked("same bytes"),
    "write": marked("in-place write"),
    "moved": marked("version after a write"),
    "stale": marked("overwritten"),
    "order": marked("order of backward"),
    "flow": marked("gradient passes"),
    "kept": marked("gradient is kept"),
    "run": marked("how much of it backward has run"),
    "done": marked("backward is done with it"),
    "nan": marked("holds NaN or ∞; ∂: its gradient does"),
    "error": marked("torch raised"),
    "wrong": marked("wrong, no error"),
}


def draw_legend(sketches: Sequence[Sketch], left: float, top: float, width: float, steps: int) -> tuple[str, float]:
    """The entries for all Sketches in one picture, in lines of at most `width`, and the height they take."""
    entries, x, y = [], 0.0, 0.0
    for sign, since in first_steps(sketches, steps).items():
        room = SAMPLE_PX + columns(_(WORDS[sign])) * NUMBER_PX + BETWEEN_PX
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
    return el("g", *entries, class_="legend"), (y + LINE_PX + UNDER_PX if entries else 0.0)


def _box(class_: str, *more: str, rx: float = 3) -> str:
    return el("g", el("rect", class_="bx", x=0, y=-6, width=18, height=12, rx=rx), *more, class_=class_)


def _tag(label: str, class_: str = "pin") -> str:
    outline = "M1 -6.5h16a2 2 0 0 1 2 2v9a2 2 0 0 1 -2 2h-16a2 2 0 0 1 -2 -2v-9a2 2 0 0 1 2 -2z"
    return el("g", el("path", d=outline), text(label, 9, 3.4, "", anchor="middle"), class_=class_)


SAMPLES = {
    "heat": el(
        "g",
        el("rect", class_="hs", x=0, y=-5, width=20, height=10),
        el("path", class_="hn4", d="M0 0h4"),
        el("path", class_="hn2", d="M4 0h4"),
        el("path", class_="hp2", d="M12 0h4"),
        el("path", class_="hp4", d="M16 0h4"),
        class_="heat",
    ),
    "leaf": _box("leaf", el("rect", class_="bar", x=0, y=-6, width=4, height=12, rx=1.5)),
    "tensor": _box("tensor"),
    "plain": _box("plain"),
    "root": _box("root"),
    "node": _box("fn node", rx=6),
    "custom": _box("fn node", el("rect", class_="own", x=2, y=-4, width=14, height=8, rx=4), rx=6),
    "second": _box("fn node", text("∂", 9, 4, "fnm", anchor="middle"), rx=6),
    "group": el(
        "g",
        el("rect", class_="bx under", x=3, y=-4, width=17, height=12, rx=3),
        el("rect", class_="bx", x=0, y=-7, width=17, height=12, rx=3),
        class_="bd",
    ),
    "open": el("rect", class_="frame", x=0, y=-7, width=20, height=14, rx=4),
    "chip": el(
        "g",
        el("rect", class_="bx", x=0, y=-6, width=18, height=12, rx=3),
        el("rect", class_="bar", x=0, y=-6, width=4, height=12, rx=1.5),
        class_="ch leaf",
    ),
    "way": el(
        "g",
        el("rect", class_="bx", x=0, y=-6, width=18, height=12, rx=3),
        text("→", 9, 3.6, "", anchor="middle"),
        class_="ch",
    ),
    "op": _box("fn op", rx=6),
    "off": _box("fn op off", rx=6),
    "loose": el("path", class_="e lo", d="M0 0h19"),
    "cut": el("g", el("path", class_="e al", d="M0 0h19"), el("path", class_="cut", d="M5 5l4 -10m1 10l4 -10")),
    "output": text("1", 6, 4, "nr"),
    "hook": el(
        "g",
        el("rect", x=0, y=-6.5, width=18, height=13, rx=4),
        el("path", class_="curl", d="M6 -4v5a3 3 0 0 0 6 0v-2"),
        class_="hook",
    ),
    "accumulate": el(
        "g", el("rect", x=-3, y=-7, width=23, height=14, rx=7), text("+=", 8.5, 3.7, "", anchor="middle"), class_="acc"
    ),
    "again": el(
        "g", el("rect", x=-3, y=-7, width=23, height=14, rx=3), text("2.1", 8.5, 3.7, "", anchor="middle"), class_="chk"
    ),
    "share": el(
        "g",
        el("rect", class_="edge", x=0, y=-6, width=18, height=12, rx=3),
        el("rect", class_="share", x=1, y=2.5, width=8, height=3, rx=1.5),
        class_="slot flow",
    ),
    "free": _tag("v0", "pin free"),
    "retain": el("g", el("rect", class_="edge", x=0, y=-6, width=18, height=12, rx=3), class_="slot keep"),
    "pin": _tag("v0"),
    "bare": _tag("•"),
    "storage": el("g", el("rect", x=0, y=-7, width=18, height=14, rx=5), class_="storage"),
    "write": _box("fn ip", text("✎", 9, 4, "fnm", anchor="middle"), rx=6),
    "moved": el(
        "g",
        el("rect", x=-4, y=-7, width=26, height=14, rx=4),
        text("✎v1", 9, 3.6, "", anchor="middle"),
        class_="ver moved",
    ),
    "run": el("rect", class_="share", x=0, y=-2, width=18, height=4, rx=2),
    "done": _box("fn done", rx=6),
    "nan": el(
        "g",
        el("rect", x=-4, y=-7, width=26, height=14, rx=4),
        text("NaN", 9, 4, "", anchor="middle"),
        class_="nan",
    ),
    "stale": _box("gone", el("rect", x=0, y=-6, width=18, height=12, rx=3, fill=OLD)),
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
