"""A tensor's card: name, version badge, numbers, and the slot for its gradient."""

from __future__ import annotations

from seegrad.model.recording import Preview
from seegrad.picture.sketch import Card
from seegrad.picture.svg.elements import ROW_PX, UID, clean, el, grid, text
from seegrad.picture.svg.gradients import draw_accumulator, draw_hooks, draw_slot
from seegrad.picture.svg.sizes import HEAD_PX, Box, CardSize, shape_text
from seegrad.words.languages import _, marked

KINDS = {"leaf": marked("leaf tensor"), "tensor": marked("tensor"), "plain": marked("tensor without gradient")}


def draw_card(card: Card, box: Box, size: CardSize, states: str, steps: int) -> str:
    """The whole card as one group that can be focused and selected."""
    parts = [
        el("title", clean(_label(card))),
        el("rect", class_="halo", x=-4, y=-4, width=box.width + 8, height=box.height + 8, rx=11),
        el("rect", class_="bx", width=box.width, height=box.height, rx=7),
        _bar(box.height) if card.kind == "leaf" else "",
        text(card.label, 11, 17, "nm"),
        *_badges(card, box.width, steps),
        *_numbers(card, box.width, size, steps),
        draw_slot(card, box.width, size, steps) if size.slot else "",
        draw_accumulator(card, box.width, box.height),
        draw_hooks(card.hooks, 6, box.height + 3, card.born, steps),
    ]
    classes = f"nd tn {card.kind}{' root' if card.root else ''}{' bump' if card.written else ''}"
    return el(
        "g", *parts, class_=classes, id=f"{UID}-{card.id}", data_st=states, tabindex=-1, role="button",
        transform=f"translate({box.x:.1f} {box.y:.1f})",
    )  # fmt: skip


def _label(card: Card) -> str:
    said = _("{name}, {kind}, shape {shape}")
    return said.format(name=card.full_name, kind=_(KINDS[card.kind]), shape=shape_text(card.shape))


def _bar(height: float) -> str:
    return el("path", class_="bar", d=f"M7 0a7 7 0 0 0 -7 7v{height - 14:.1f}a7 7 0 0 0 7 7h-2v-{height:.1f}z")


def _badges(card: Card, width: float, steps: int) -> list[str]:
    """The version badge; red with a pencil where a write made this card, or moved the counter while it is shown."""
    badges = []
    for k, (since, version) in enumerate(card.versions):
        if version is None:
            continue
        until = card.versions[k + 1][0] - 1 if k + 1 < len(card.versions) else steps - 1
        moved = k > 0 or (card.written and version != card.version_before)
        label = f"{'✎' if moved else ''}v{version}"
        badges.append(
            el(
                "g",
                el("rect", width=27, height=15, rx=4),
                text(label, 13.5, 11, "", anchor="middle"),
                class_="ver moved" if moved else "ver",
                transform=f"translate({width - 34:.1f} 5)",
                since=since,
                until=until,
            )
        )
    return badges


def _numbers(card: Card, width: float, size: CardSize, steps: int) -> list[str]:
    """The numbers; where another name of the bytes changed them, the old ones struck through above the new ones."""
    left = (width - sum(size.columns)) / 2 + (2 if card.kind == "leaf" else 0)
    values = card.values or ((card.born, None),)
    parts = []
    for k, (since, preview) in enumerate(values):
        until = values[k + 1][0] - 1 if k + 1 < len(values) else steps - 1
        y = HEAD_PX + 13
        if k > 0:
            parts.append(
                el(
                    "g",
                    _block(card, values[k - 1][1], left, y, width, size),
                    class_="val old",
                    since=since,
                    until=until,
                )
            )
            parts.append(_hatch(width, size, since, until))
            y += size.rows * ROW_PX + 5
        new = _block(card, preview, left, y, width, size)
        parts.append(el("g", new, class_="val new" if k else "val", since=since, until=until))
    if card.stale is not None:
        parts.append(_hatch(width, size, card.stale, None))
    return parts


def _block(card: Card, preview: Preview | None, left: float, y: float, width: float, size: CardSize) -> str:
    if preview:
        return grid(preview, left, y, size.columns)
    return text(shape_text(card.shape), width / 2, y, "nu shp", anchor="middle")


def _hatch(width: float, size: CardSize, since: int, until: int | None) -> str:
    height = size.rows * ROW_PX + 2
    return el(
        "rect",
        class_="hatch",
        x=1,
        y=HEAD_PX,
        width=width - 2,
        height=height,
        fill=f"url(#{UID}-hatch)",
        since=since,
        until=until,
    )
