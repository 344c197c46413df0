"""A Function's pill: its sign, its class name, its place in the engine's order, and torch's alarm.

Beside it a box for Functions that are seen one level below, and a chip for what stands elsewhere.
"""

from __future__ import annotations

from seegrad.picture.sketch import Bundle, Chip, Mark, Pill, spans
from seegrad.picture.svg.cards import draw_hooks
from seegrad.picture.svg.elements import HATCH, UID, clean, el, text
from seegrad.picture.svg.sizes import (
    DISC_FROM_RIGHT_PX,
    Box,
    bundle_text,
    chip_lines,
    disc_label,
    disc_width,
    header_width,
)
from seegrad.words.languages import _

LENGTHS = 12  # of the bar that tells how much of a box has run


def draw_pill(pill: Pill, box: Box, mark: Mark | None, states: str, steps: int) -> str:
    """The whole pill as one group that can be focused and selected."""
    parts = [
        el("title", clean(_label(pill))),
        el("rect", class_="halo", x=-4, y=-4, width=box.width + 8, height=box.height + 8, rx=24),
        el("rect", class_="bx", width=box.width, height=box.height, rx=20),
        el("rect", class_="own", x=3, y=3, width=box.width - 6, height=box.height - 6, rx=17) if pill.custom else "",
        _damage(box, mark) if mark and mark.severity == "wrong" else "",
        text(pill.sign, box.width / 2, 17, "sym", anchor="middle"),
        text(pill.name, box.width / 2, 31.5, "fnm", anchor="middle"),
        *_order(pill, box.width, mark, steps),
        draw_hooks(pill.hooks, box.width / 2 - 24, box.height + 4, pill.born, steps),
        alarm(mark, box.width) if mark and mark.severity != "note" else "",
    ]
    classes = (
        f"nd fn {pill.kind}{' ip' if pill.inplace else ''}{' off' if pill.off else ''}{' hm' if pill.harmful else ''}"
    )
    return el(
        "g", *parts, class_=classes, id=f"{UID}-{pill.id}", data_st=states, tabindex=-1, role="button",
        transform=f"translate({box.x:.1f} {box.y:.1f})",
    )  # fmt: skip


def _label(pill: Pill) -> str:
    if pill.kind == "node":
        kind = _("{name}, Function, in-place") if pill.inplace else _("{name}, Function")
        if pill.custom:
            kind = _("{name}, custom Function")
        if pill.of_gradient:
            kind = _("{name}, Function of a gradient")
        return kind.format(name=pill.name)
    said = _("{name}, in-place write without a Function") if pill.kind == "write" else _("{name}, not recorded")
    return said.format(name=pill.symbol)


def _damage(box: Box, mark: Mark) -> str:
    return el("rect", width=box.width, height=box.height, rx=20, fill=HATCH, since=mark.since)


def _order(pill: Pill, width: float, mark: Mark | None, steps: int) -> list[str]:
    """Numbered discs: who ran first. A second backward call numbers anew, with its own number before the dot."""
    discs = []
    end = mark.since - 1 if mark is not None and mark.severity != "note" else steps - 1
    laps = dict(pill.laps)
    for since, until, place in spans(pill.runs, steps):
        if since <= min(until, end):
            where = f"translate({width - DISC_FROM_RIGHT_PX:.1f} 6.5)"
            discs.append(
                el("g", *disc(place, laps[since]), class_="chk", transform=where, since=since, until=min(until, end))
            )
    return discs


def disc(place: int, lap: int) -> list[str]:
    """A disc for the first backward call, a wider tag for later ones: their shapes differ too."""
    if lap == 1 and place < 100:
        return [el("circle", r=8), text(str(place), 0, 3.7, "", anchor="middle")]
    said = disc_label(place, lap)
    width = disc_width(said)
    box = el("rect", x=-width / 2, y=-8, width=width, height=16, rx=8 if lap == 1 else 3)
    return [box, text(said, 0, 3.7, "", anchor="middle")]


def alarm(mark: Mark, width: float) -> str:
    """Torch raised: a solid triangle. It didn't, but the gradient is wrong: a ring. Both with an exclamation mark."""
    shape = el("path", d="M4 -7.5l10 17.5h-20z") if mark.severity == "error" else el("circle", cx=4, cy=3, r=9)
    sign = el("path", class_="ex", d="M4 -1.5v5.5M4 6.6v.2")
    return el(
        "g", shape, sign, class_=f"bang {mark.severity}", transform=f"translate({width - 13:.1f} 2)", since=mark.since
    )


def draw_bundle(bundle: Bundle, box: Box, mark: Mark | None, states: str, steps: int) -> str:
    """The box as one group that opens its level; a bar tells how many of its Functions have run."""
    back = "".join(el("rect", class_="bx under", x=d, y=d, width=box.width, height=box.height, rx=9) for d in (6, 3))
    parts = [
        el("title", clean(_("{name}, {count}, open").format(name=bundle.label, count=bundle_text(bundle)))),
        back,
        el("rect", class_="halo", x=-4, y=-4, width=box.width + 11, height=box.height + 11, rx=13),
        el("rect", class_="bx", width=box.width, height=box.height, rx=9),
        text(bundle.label, 12, 20, "bnm"),
        el("path", class_="more", d=f"M{box.width - 17:.1f} 15.5h9m-4.5 -4.5v9"),
        text(bundle_text(bundle), 12, 36, "fnm"),
        *_progress(bundle, box, steps),
        alarm(mark, box.width) if mark and mark.severity != "note" else "",
    ]
    return el(
        "g", *parts, class_=_class(bundle), id=f"{UID}-{bundle.id}", data_st=states, data_open=bundle.id, tabindex=-1,
        role="button", transform=f"translate({box.x:.1f} {box.y:.1f})",
    )  # fmt: skip


def _class(bundle: Bundle) -> str:
    """Grey where nothing is trained, dashed where nothing was recorded either: a gradient may pass what is frozen."""
    return f"nd bd{' off' if bundle.off or bundle.frozen else ''}{' op' if bundle.off else ''}"


def draw_header(bundle: Bundle, box: Box, states: str, closes_to: str) -> str:
    """The head of an open box's frame: a click on it leads back to the level around it."""
    parts = [
        el("title", clean(_("{name}, {count}, close").format(name=bundle.label, count=bundle_text(bundle)))),
        el("rect", class_="halo", x=2, y=2, width=header_width(bundle.label) - 4, height=26, rx=10),
        el("rect", class_="bx", x=4, y=4, width=header_width(bundle.label) - 8, height=22, rx=8),
        el("path", class_="more", d="M13 15h9"),
        text(bundle.label, 30, 19.5, "bnm"),
    ]
    return el(
        "g", *parts, class_=_class(bundle), id=f"{UID}-{bundle.id}", data_st=states, data_open=closes_to, tabindex=-1,
        role="button", transform=f"translate({box.x:.1f} {box.y:.1f})",
    )  # fmt: skip


def _progress(bundle: Bundle, box: Box, steps: int) -> list[str]:
    """A bar in a few lengths: finer ones couldn't be told apart. Full when all has run that backward reaches."""
    room = box.width - 24
    lengths = {done * LENGTHS // bundle.due: (step, done) for step, done in reversed(bundle.ran)}
    ran = tuple(lengths[length] for length in sorted(lengths))
    return [
        el("rect", class_="share", x=12, y=box.height - 9, width=room * done / bundle.due, height=4, rx=2,
           since=since, until=until)
        for since, until, done in spans(ran, steps)
    ]  # fmt: skip


def draw_chip(chip: Chip, box: Box, states: str) -> str:
    """The chip as one group that leads to what it names."""
    lines = [text(line, 10, 15 + 13 * k, "") for k, line in enumerate(chip_lines(chip))]
    said = {"in": _("comes from {name}"), "out": _("leads to {name}"), "leaf": _("leaf {name}, drawn elsewhere")}
    bar = el("rect", class_="bar", x=0, y=0, width=4, height=box.height, rx=2) if chip.kind == "leaf" else ""
    return el(
        "g",
        el("title", clean(said[chip.kind].format(name=", ".join(chip.labels)))),
        el("rect", class_="halo", x=-3, y=-3, width=box.width + 6, height=box.height + 6, rx=8),
        el("rect", class_="bx", width=box.width, height=box.height, rx=5),
        bar,
        *lines,
        class_=f"nd ch {chip.kind}",
        id=f"{UID}-{chip.id}",
        data_st=states,
        data_goto=chip.goes_to,
        tabindex=-1,
        role="button",
        transform=f"translate({box.x:.1f} {box.y:.1f})",
    )
