"""A Function's pill: its sign, its class name, its place in the engine's order, and torch's alarm."""

from __future__ import annotations

from seegrad.picture.sketch import Mark, Pill
from seegrad.picture.svg.elements import UID, clean, el, text
from seegrad.picture.svg.gradients import draw_hooks, spans
from seegrad.picture.svg.sizes import Box
from seegrad.words.languages import _


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
    classes = f"nd fn {pill.kind}{' ip' if pill.inplace else ''}{' off' if pill.off else ''}"
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
        return kind.format(name=pill.label)
    said = _("{name}, in-place write without a Function") if pill.kind == "write" else _("{name}, not recorded")
    return said.format(name=pill.symbol)


def _damage(box: Box, mark: Mark) -> str:
    return el("rect", width=box.width, height=box.height, rx=20, fill=f"url(#{UID}-hatch)", since=mark.since)


def _order(pill: Pill, width: float, mark: Mark | None, steps: int) -> list[str]:
    """Numbered discs: who ran first. A second backward call numbers anew, with its own number before the dot."""
    discs = []
    end = mark.since - 1 if mark is not None and mark.severity != "note" else steps - 1
    laps = dict(pill.laps)
    for since, until, place in spans(pill.runs, steps):
        if since <= min(until, end):
            where = f"translate({width - 9:.1f} 6.5)"
            discs.append(
                el("g", *disc(place, laps[since]), class_="chk", transform=where, since=since, until=min(until, end))
            )
    return discs


def disc(place: int, lap: int) -> list[str]:
    """A disc for the first backward call, a wider tag for later ones: their shapes differ too."""
    if lap == 1 and place < 100:
        return [el("circle", r=8), text(str(place), 0, 3.7, "", anchor="middle")]
    said = str(place) if lap == 1 else f"{lap}.{place}"
    width = 6.4 * len(said) + 6
    box = el("rect", x=-width / 2, y=-8, width=width, height=16, rx=8 if lap == 1 else 3)
    return [box, text(said, 0, 3.7, "", anchor="middle")]


def alarm(mark: Mark, width: float) -> str:
    """Torch raised: a solid triangle. It didn't, but the gradient is wrong: a ring. Both with an exclamation mark."""
    shape = el("path", d="M4 -7.5l10 17.5h-20z") if mark.severity == "error" else el("circle", cx=4, cy=3, r=9)
    sign = el("path", class_="ex", d="M4 -1.5v5.5M4 6.6v.2")
    return el(
        "g", shape, sign, class_=f"bang {mark.severity}", transform=f"translate({width - 13:.1f} 2)", since=mark.since
    )
