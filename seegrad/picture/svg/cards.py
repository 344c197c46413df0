"""A tensor's card: name, version badge, numbers, and the slot for its gradient, with what happens to it on the way."""

from __future__ import annotations

from seegrad.model.recording import Gradient, Hook, Preview, Summary
from seegrad.model.scene import Point
from seegrad.picture.sketch import Card, at, is_finite, spans
from seegrad.picture.svg.elements import HATCH, OLD, ROW_PX, UID, clean, el, grid, text
from seegrad.picture.svg.sizes import HEAD_PX, NUMBER_PX, Box, CardSize, badge_width, shape_text
from seegrad.picture.svg.strips import draw_strip
from seegrad.words.languages import _, marked
from seegrad.words.widths import columns

TAG_HEIGHT_PX = 13
NAN_PX = 8  # a letter of the sign for numbers that aren't finite
STRIP_LEFT_PX = 12  # beside a heat strip
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
        *_broken(card, box.width, steps),
        *_numbers(card, box.width, size, steps),
        draw_slot(card, box.width, size, steps) if size.slot else "",
        draw_accumulator(card, box.width, box.height),
        draw_hooks(card.hooks, 6, box.height + 3, card.born, steps),
    ]
    harm = _harm(card, card.born) if card.written else ""
    classes = f"nd tn {card.kind}{' root' if card.root else ''}{' bump' if card.written else ''}{harm}"
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
        moved = since in card.moved
        label = f"{'✎' if moved else ''}v{version}"
        room = badge_width(label)
        badges.append(
            el(
                "g",
                el("rect", width=room, height=15, rx=4),
                text(label, room / 2, 11, "", anchor="middle"),
                class_=f"ver moved{_harm(card, since)}" if moved else "ver",
                transform=f"translate({width - 7 - room:.1f} 5)",
                since=since,
                until=until,
            )
        )
    return badges


def _numbers(card: Card, width: float, size: CardSize, steps: int) -> list[str]:
    """The numbers; where another name of the bytes changed them, the old ones struck through above the new ones."""
    left = (width - size.columns_px) / 2 + (2 if card.kind == "leaf" else 0)
    values = card.values or ((card.born, None),)
    parts = []
    for k, (since, _preview) in enumerate(values):
        until = values[k + 1][0] - 1 if k + 1 < len(values) else steps - 1
        y = HEAD_PX + 13
        if k > 0 and since not in card.updated:
            parts.append(
                el(
                    "g",
                    _block(card, k - 1, left, y, width, size),
                    class_="val old",
                    since=since,
                    until=until,
                )
            )
            parts.append(_hatch(width, size, since, until))
            y += size.rows * ROW_PX + 5
        new = _block(card, k, left, y, width, size)
        class_ = f"val new{_harm(card, since)}" if y > HEAD_PX + 13 else "val"
        parts.append(el("g", new, class_=class_, since=since, until=until))
    if card.stale is not None:
        parts.append(_hatch(width, size, card.stale, None))
    return parts


def _harm(card: Card, since: int) -> str:
    """The class of what a write has changed that did damage."""
    return " hm" if since in card.harmed else ""


def _broken(card: Card, width: float, steps: int) -> list[str]:
    """A sign on the upper edge while the tensor holds NaN or infinity, behind a ∂ while its gradient does."""
    known = dict.fromkeys(step for step, _value in (*card.values, *card.summaries, *card.gradients))
    parts = []
    for since, until, said in spans(tuple((step, _sign(card, step)) for step in sorted(known)), steps):
        if said:
            wide = columns(said) * NAN_PX + 10
            sign = el("rect", x=-wide / 2, y=-15, width=wide, height=15, rx=4)
            where = f"translate({width / 2:.1f} 0)"
            told = text(said, 0, -3.5, "", anchor="middle")
            parts.append(el("g", sign, told, class_="nan", transform=where, since=since, until=until))
    return parts


def _sign(card: Card, step: int) -> str:
    """What is to be told at a step of its numbers, then of its gradient where that is something else."""
    gradient = at(card.gradients, step)
    own = _not_finite(at(card.values, step), at(card.summaries, step))
    given = "" if gradient is None else _not_finite(gradient.preview, gradient.summary)
    return own if given in ("", own) else f"{own} ∂ {given}".strip()


def _not_finite(preview: Preview | None, summary: Summary | None) -> str:
    """`NaN` where a number is none, `±∞` where one is infinite; "" where all are finite."""
    if is_finite(preview, summary):
        return ""
    nans = summary is not None and summary.nans > 0
    return "NaN" if nans or any("nan" in number for row in preview or () for number in row) else "±∞"


def _block(card: Card, entry: int, left: float, y: float, width: float, size: CardSize) -> str:
    """What the card shows from that entry of its values on."""
    since, preview = card.values[entry] if card.values else (card.born, None)
    if preview:
        return grid(preview, left, y, size.columns)
    shape = text(shape_text(card.shape), width / 2, y, "nu shp", anchor="middle")
    summary = at(card.summaries, since)
    return shape + (draw_strip(summary, STRIP_LEFT_PX, y + 6, width - 2 * STRIP_LEFT_PX) if summary else "")


def _hatch(width: float, size: CardSize, since: int, until: int | None) -> str:
    height = size.rows * ROW_PX + 2
    return el(
        "rect",
        class_="hatch",
        x=1,
        y=HEAD_PX,
        width=width - 2,
        height=height,
        fill=OLD,
        since=since,
        until=until,
    )


def draw_slot(card: Card, width: float, size: CardSize, steps: int) -> str:
    """`.grad` where it is kept, `∂ flows` where it only passes through; amber while it holds a gradient."""
    top, height = size.slot_top, size.slot_height
    first = card.gradients[0][0] if card.gradients else steps
    keeps_from = card.keeps_from if card.keeps_from is not None else steps
    if keeps_from == first < steps and card.kind != "leaf":
        keeps_from = 0  # kept as soon as it came, and nobody saw when that was asked for
    parts = [el("rect", class_="edge", x=6, y=top, width=width - 12, height=height, rx=4)]
    parts += _empty(width / 2, top + 17 + (size.slot_rows or size.rows) * ROW_PX / 2, keeps_from, first)
    parts += [_gradient(card, width, size, since, until, g) for since, until, g in spans(card.gradients, steps)]
    parts += _captions(card, top, keeps_from, steps)
    parts += [
        _share(card, width, size, max(since, keeps_from), since, until, *share)
        for since, until, share in spans(card.shares, steps)
    ]
    return el("g", *parts, class_=f"slot {'keep' if keeps_from < steps else 'flow'}")


def _empty(middle: float, y: float, keeps_from: int, first: int) -> list[str]:
    """What stands in the slot before a gradient comes."""
    turn = min(keeps_from, first)
    parts = [text("–", middle, y, "none", anchor="middle", until=turn - 1)] if turn > 0 else []
    if keeps_from < first:
        parts.append(text("None", middle, y, "none", anchor="middle", since=keeps_from, until=first - 1))
    return parts


def _captions(card: Card, top: float, keeps_from: int, steps: int) -> list[str]:
    """`.grad`, or `∂`: shares are told instead of `flows`, and beside "wrong" stands the sign alone."""
    lit = card.gradients[0][0] if card.gradients else steps
    shared = card.shares[0][0] if card.shares and card.kind != "leaf" else steps
    wrong = card.wrong_from if card.wrong_from is not None else steps
    came = spans(card.gradients, steps) if card.kind == "leaf" else []
    handed = [(since, until) for since, until, each in came if not each.kept]
    parts = []
    for caption, since, until in (
        (_("∂ flows"), 0, min(keeps_from, shared, wrong) - 1),
        ("∂", wrong, keeps_from - 1),
        *((".grad", *each) for each in _without(keeps_from, steps - 1, handed)),
        *((_("∂, returned"), *each) for each in handed),
    ):
        for class_, a, b in (("cap", since, min(until, lit - 1)), ("cap on", max(since, lit), until)):
            if a <= b:
                parts.append(text(caption, 12, top + 11.5, class_, since=a, until=b))
    return parts


def _without(first: int, last: int, holes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The steps from `first` to `last` that lie in no hole, as spans.

    >>> _without(0, 9, [(2, 3), (5, 9)])
    [(0, 1), (4, 4)]
    """
    found = []
    for since, until in holes:
        found.append((first, since - 1))
        first = until + 1
    return [(a, b) for a, b in [*found, (first, last)] if a <= b]


def _share(
    card: Card, width: float, size: CardSize, kept_from: int, since: int, until: int, come: int, expected: int
) -> str:
    """How many of the gradients that are added up have come: in words, and as a bar that fills the slot's floor."""
    y, said = size.slot_top + 11.5, share_text(come, expected)
    wrong_from = card.wrong_from if card.wrong_from is not None else until + 1
    told_until = min(kept_from, wrong_from) - 1  # then "wrong" needs the room
    words = [text(f"∂ {said}", 12, y, "cap on", until=told_until)] if told_until >= since else []
    if kept_from <= until and kept_from < wrong_from:
        words.append(text(said, width - 11, y, "cap on", anchor="end", since=kept_from, until=wrong_from - 1))
    room = width - 16
    floor = size.slot_top + size.slot_height - 4.5
    bar = el("rect", class_="share", x=8, y=floor, width=room * come / expected, height=3, rx=1.5)
    return el("g", *words, bar, since=since, until=until)


def share_text(come: int, expected: int) -> str:
    """`1/3 came`: no number that could be read as a gradient's."""
    return _("{come}/{expected} came").format(come=come, expected=expected)


def _gradient(card: Card, width: float, size: CardSize, since: int, until: int, gradient: Gradient) -> str:
    top, height = size.slot_top, size.slot_height
    left = (width - size.columns_px) / 2 + (2 if card.kind == "leaf" else 0)
    wrong = card.wrong_from is not None and since >= card.wrong_from
    parts = [el("rect", class_="fill", x=6, y=top, width=width - 12, height=height, rx=4)]
    if wrong:
        parts.append(el("rect", x=6, y=top, width=width - 12, height=height, rx=4, fill=HATCH))
        parts.append(text(_("wrong"), width - 11, top + 11.5, "cap bad", anchor="end"))
    if gradient.preview:
        parts.append(grid(gradient.preview, left, top + 26, size.columns))
    elif gradient.summary and gradient.shape == card.shape:
        parts.append(draw_strip(gradient.summary, STRIP_LEFT_PX, top + 18, width - 2 * STRIP_LEFT_PX))
    else:
        parts.append(text(shape_text(gradient.shape), width / 2, top + 26, "nu shp", anchor="middle"))
    return el("g", *parts, class_="gv wrong" if wrong else "gv", since=since, until=until)


def draw_accumulator(card: Card, width: float, height: float) -> str:
    """The AccumulateGrad of a leaf, on its edge where the gradient comes in."""
    if card.accumulates is None:
        return ""
    return el(
        "g",
        el("title", "AccumulateGrad"),
        el("rect", x=-13, y=-7.5, width=26, height=15, rx=7.5),
        text("+=", 0, 3.7, "", anchor="middle"),
        class_="acc",
        transform=f"translate({width - 20:.1f} {height + 2:.1f})",
        since=card.accumulates,
    )


def draw_hooks(hooks: tuple[Hook, ...], x: float, y: float, born: int, steps: int) -> str:
    """How many hooks sit here, on the lower edge; lit in the step in which one of them runs."""
    starts = tuple((max(hook.frame, born), k + 1) for k, hook in enumerate(hooks))
    latest = tuple(dict(starts).items())  # several in one step: the last count
    tags = []
    for since, until, count in spans(latest, steps):
        said = _("hook") if count == 1 else f"×{count}"
        calls = sorted({call.frame for hook in hooks[:count] for call in hook.calls})
        tags.append(_hook_tag(said, (x, y), since, until, "hook", hooks[:count]))
        tags += [_hook_tag(said, (x, y), k, k, "hook on", hooks[:count]) for k in calls if since <= k <= until]
    return "".join(tags)


def _hook_tag(said: str, place: Point, since: int, until: int, class_: str, hooks: tuple[Hook, ...]) -> str:
    width = columns(said) * NUMBER_PX + 22
    curl = el("path", class_="curl", d="M7 -4v5a3 3 0 0 0 6 0v-2")
    return el(
        "g",
        el("title", clean(", ".join(hook.name or hook.kind for hook in hooks))),
        el("rect", x=0, y=-TAG_HEIGHT_PX / 2, width=width, height=TAG_HEIGHT_PX, rx=4),
        curl,
        text(said, 17, 3.3, ""),
        class_=class_,
        transform=f"translate({place[0]:.1f} {place[1]:.1f})",
        since=since,
        until=until,
    )
