"""A box for what is seen one level below, and a chip for what stands elsewhere."""

from __future__ import annotations

from seegrad.picture.sketch import Bundle, Chip, Mark
from seegrad.picture.svg.elements import UID, clean, el, text
from seegrad.picture.svg.gradients import spans
from seegrad.picture.svg.pills import alarm
from seegrad.picture.svg.sizes import Box
from seegrad.words.languages import _, counted
from seegrad.words.widths import columns

LENGTHS = 12  # of the bar that tells how much of a box has run
ARROWS = {"in": "{name} →", "out": "→ {name}", "leaf": "{name}"}


def draw_bundle(bundle: Bundle, box: Box, mark: Mark | None, states: str, steps: int) -> str:
    """The box as one group that opens its level; a bar tells how many of its Functions have run."""
    back = "".join(el("rect", class_="bx under", x=d, y=d, width=box.width, height=box.height, rx=9) for d in (6, 3))
    parts = [
        el("title", clean(_("{name}, {count}, open").format(name=bundle.label, count=functions(bundle.count)))),
        back,
        el("rect", class_="halo", x=-4, y=-4, width=box.width + 11, height=box.height + 11, rx=13),
        el("rect", class_="bx", width=box.width, height=box.height, rx=9),
        text(bundle.label, 12, 20, "bnm"),
        el("path", class_="more", d=f"M{box.width - 17:.1f} 15.5h9m-4.5 -4.5v9"),
        text(functions(bundle.count), 12, 36, "fnm"),
        *_progress(bundle, box, steps),
        alarm(mark, box.width) if mark and mark.severity != "note" else "",
    ]
    return el(
        "g", *parts, class_="nd bd", id=f"{UID}-{bundle.id}", data_st=states, data_open=bundle.id, tabindex=-1,
        role="button", transform=f"translate({box.x:.1f} {box.y:.1f})",
    )  # fmt: skip


def draw_header(bundle: Bundle, box: Box, states: str, closes_to: str) -> str:
    """The head of an open box's frame: a click on it leads back to the level around it."""
    parts = [
        el("title", clean(_("{name}, {count}, close").format(name=bundle.label, count=functions(bundle.count)))),
        el("rect", class_="halo", x=2, y=2, width=header_width(bundle.label) - 4, height=26, rx=10),
        el("rect", class_="bx", x=4, y=4, width=header_width(bundle.label) - 8, height=22, rx=8),
        el("path", class_="more", d="M13 15h9"),
        text(bundle.label, 30, 19.5, "bnm"),
    ]
    return el(
        "g", *parts, class_="nd bd", id=f"{UID}-{bundle.id}", data_st=states, data_open=closes_to, tabindex=-1,
        role="button", transform=f"translate({box.x:.1f} {box.y:.1f})",
    )  # fmt: skip


def header_width(label: str) -> float:
    """How wide the head of an open box is."""
    return columns(label) * 8.0 + 46


def functions(count: int) -> str:
    """`1 Function`, `12 Functions`."""
    return counted("{count} Function", "{count} Functions", count).format(count=count)


def _progress(bundle: Bundle, box: Box, steps: int) -> list[str]:
    """A bar in a few lengths: finer ones couldn't be told apart."""
    room = box.width - 24
    lengths = {done * LENGTHS // bundle.count: (step, done) for step, done in reversed(bundle.ran)}
    ran = tuple(lengths[length] for length in sorted(lengths))
    return [
        el("rect", class_="share", x=12, y=box.height - 9, width=room * done / bundle.count, height=4, rx=2,
           since=since, until=until)
        for since, until, done in spans(ran, steps)
    ]  # fmt: skip


def bundle_size(bundle: Bundle) -> tuple[float, float]:
    """Width and height."""
    return max(116.0, columns(bundle.label) * 8.0 + 42, columns(functions(bundle.count)) * 6.4 + 26), 54.0


def chip_lines(chip: Chip) -> list[str]:
    """What a chip says, line by line."""
    return [ARROWS[chip.kind].format(name=label) for label in chip.labels]


def chip_size(chip: Chip) -> tuple[float, float]:
    """Width and height."""
    lines = chip_lines(chip)
    return max(map(columns, lines)) * 6.1 + 18, 9.0 + 13 * len(lines)


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
