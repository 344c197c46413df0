"""Frames around the cards that share bytes, and the tags under marked parts."""

from __future__ import annotations

from seegrad.picture.sketch import Mark, Sketch, StorageGroup
from seegrad.picture.svg.elements import el, text
from seegrad.picture.svg.pills import alarm
from seegrad.picture.svg.sizes import FRAME_LABEL_PX, LABEL_PX, PAD_PX, Box, Measured
from seegrad.words.languages import _, marked
from seegrad.words.widths import columns

COUNTERS = {
    0: marked("no version counter"),
    1: marked("one version counter"),
    2: marked("two version counters"),
    3: marked("three version counters"),
}


def draw_frames(sketch: Sketch, measured: Measured, boxes: dict[str, Box]) -> str:
    """One soft outline a stack; several on one storage carry its letter."""
    frames = []
    for k, group in enumerate(sketch.storages):
        homes = list(dict.fromkeys(measured.home[card] for card in group.cards))
        letter = chr(ord("A") + k % 26)
        alone = len(homes) == 1 and len(sketch.storages) == 1
        title = _("one storage") if alone else _("storage {letter}").format(letter=letter)
        for home in homes:
            members = measured.clusters[home].members if home in measured.clusters else (home,)
            frames.append(_frame(group, title, [boxes[name] for name in members]))
    return el("g", *frames, class_="storages")


def _frame(group: StorageGroup, title: str, boxes: list[Box]) -> str:
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
    width = max(map(columns, mark.lines)) * 6.1 + 14
    height = 6 + 13 * len(mark.lines)
    lines = [text(line, 0, 4 + 13 * k, "", anchor="middle") for k, line in enumerate(mark.lines)]
    tag = el(
        "g",
        el("path", class_="tip", d="M-6 -8l6 -6 6 6z"),
        el("rect", x=-width / 2, y=-9, width=width, height=height, rx=5),
        *lines,
        class_=f"clash {mark.severity}",
        transform=f"translate({box.middle:.1f} {box.bottom + 17:.1f})",
        since=mark.since,
    )
    if mark.target.startswith("t") and mark.severity != "note":
        sign = el("g", alarm(mark, 9), transform=f"translate({box.x:.1f} {box.y:.1f})")
        return tag + sign
    return tag
