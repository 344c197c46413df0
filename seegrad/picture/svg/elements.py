"""Elements as text: escaped, numbers rounded, attributes in order, so that the same picture is the same bytes."""

from __future__ import annotations

import re
from html import escape

from seegrad.picture.sketch import is_broken

ROW_PX = 15  # one row of numbers
BROKEN_PX = 6.7  # one character of `nan`
UNFIT = re.compile("[^\\t\\n -~\\x80-\\ud7ff\\ue002-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that XML can't hold, UID and the Scene's PART."""
UID = "\ue000"  # stands for the Scene's uid until the body is known and hashed: see `with_uid`
HATCH = f"url(#{UID}-hatch)"  # wrong
OLD = f"url(#{UID}-old)"  # overwritten


def el(tag: str, *children: str, since: int | None = None, until: int | None = None, **attributes: object) -> str:
    """One SVG element; `since` and `until` are the first and last step at which it is visible.

    >>> el("rect", x=1.25, class_="bx", since=3)
    '<rect x="1.2" class="bx" data-a="3"/>'
    """
    pairs = [(name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items() if value is not None]
    pairs += [(name, value) for name, value in (("data-a", since), ("data-b", until)) if value is not None]
    head = tag + "".join(f' {name}="{_value(value)}"' for name, value in pairs)
    inside = "".join(children)
    return f"<{head}>{inside}</{tag}>" if inside else f"<{head}/>"


def with_uid(markup: str, uid: str) -> str:
    """Finished markup, its ids beginning with the Scene's uid.

    >>> with_uid(el("g", id=f"{UID}-t1"), "s42")
    '<g id="s42-t1"/>'
    """
    return markup.replace(UID, uid)


def text(
    content: str,
    x: float,
    y: float,
    class_: str,
    *,
    anchor: str | None = None,
    since: int | None = None,
    until: int | None = None,
) -> str:
    """A `<text>`; what it says is escaped."""
    return el("text", clean(content), x=x, y=y, class_=class_, text_anchor=anchor, since=since, until=until)


def clean(content: str) -> str:
    """Escaped, without characters that XML can't hold.

    >>> clean("<b>" + chr(0))
    '&lt;b&gt;'
    """
    return escape(UNFIT.sub("", content), quote=True)


def _value(value: object) -> str:
    return (
        number(value)
        if isinstance(value, float)
        else clean(value)
        if isinstance(value, str) and UID not in value
        else str(value)
    )


def number(value: float) -> str:
    """At most one decimal, no trailing zero.

    >>> number(3.0), number(2.25), number(-0.01)
    ('3', '2.2', '0')
    """
    short = f"{value:.1f}".removesuffix(".0")
    return "0" if short == "-0" else short


def grid(
    preview: tuple[tuple[str, ...], ...], x: float, y: float, columns: tuple[float, ...], class_: str = "nu"
) -> str:
    """Numbers right-aligned in their columns, with a true minus sign."""
    cells = []
    for row, numbers in enumerate(preview):
        left = x
        for width, number in zip(columns, numbers, strict=False):
            right, base = left + width - 4, y + row * ROW_PX
            broken = is_broken(number)
            if broken:
                wide = BROKEN_PX * len(number) + 4
                cells.append(el("rect", class_="nf", x=right + 2 - wide, y=base - 11, width=wide, height=14, rx=3))
            said = number.replace("-", "−")
            cells.append(text(said, right, base, f"{class_} nf" if broken else class_, anchor="end"))
            left += width
    return "".join(cells)


TURN_PX = 17.0  # how far a line swings out where it turns round


def curve(points: list[tuple[float, float]], *, back: bool = False) -> str:
    """A path through the points that leaves and arrives horizontally; `back`: it runs from right to left.

    Where it runs the other way, between two bands of a folded picture, it turns round beside them.

    >>> curve([(0, 0), (20, 10)])
    'M0 0C10 0 10 10 20 10'
    """
    (x, y), path = points[0], ""
    path = f"M{number(x)} {number(y)}"
    ahead = -1.0 if back else 1.0
    turned = False
    for x1, y1 in points[1:]:
        if (x1 - x) * ahead > -1.0:
            middle = number((x + x1) / 2)
            path += f"C{middle} {number(y)} {middle} {number(y1)} {number(x1)} {number(y1)}"
            turned = False
        elif not turned:  # out beside the first band, and half of the way back
            swing = number(x + TURN_PX * ahead)
            path += f"C{swing} {number(y)} {swing} {number(y1)} {number(x)} {number(y1)}H{number(x1)}"
            turned = True
        else:  # the other half, and into the second band
            swing = number(x1 - TURN_PX * ahead)
            path += f"H{number(x1)}C{swing} {number(y)} {swing} {number(y1)} {number(x1)} {number(y1)}"
            turned = False
        x, y = x1, y1
    return path
