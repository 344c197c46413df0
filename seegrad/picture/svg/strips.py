"""A heat strip: the numbers of a tensor that is too big for a card, in a line of cells from its first to its last.

Blue is below 0, orange above, the stronger the further; a cell with NaN or infinity is black and stands out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import accumulate, groupby

from seegrad.model.recording import Summary
from seegrad.picture.svg.elements import clean, el
from seegrad.words.languages import _

STRIP_PX = 10  # high
NARROWEST_STRIP_PX = 96
LEVELS = 4  # of each colour


def summary_text(summary: Summary) -> str:
    """What is known of the numbers, in one line.

    >>> summary_text(Summary("-1", "2", "3.5", zeros=4, nans=0, infinities=1, strip=("2", "inf")))
    'min -1, max 2, norm 3.5; zeros: 4, NaN: 0, Inf: 1'
    """
    counts = _("zeros: {zeros}, NaN: {nans}, Inf: {infinities}")
    counts = counts.format(zeros=summary.zeros, nans=summary.nans, infinities=summary.infinities)
    if not summary.low:
        return _("no finite number; {counts}").format(counts=counts)
    said = _("min {low}, max {high}, norm {norm}; {counts}")
    return said.format(low=summary.low, high=summary.high, norm=summary.norm, counts=counts)


def draw_strip(summary: Summary, x: float, y: float, width: float) -> str:
    """The strip, with what is known of the numbers for those who can't see it."""
    cells = [(heat, len(list(same))) for heat, same in groupby(heats(summary))]
    paths: dict[str, list[str]] = defaultdict(list)
    ends = accumulate(long for _heat, long in cells)
    for (heat, long), end in zip(cells, ends, strict=True):
        if heat:
            paths[heat].append(
                f"M{end - long} {STRIP_PX // 2}h{long}"
            )  # a line as thick as the strip is high: little to send
    return el(
        "g",
        el("title", clean(summary_text(summary))),
        el("rect", class_="hs", width=width, height=STRIP_PX),
        el(
            "g",
            *(el("path", class_=heat, d="".join(lines)) for heat, lines in sorted(paths.items(), reverse=True)),
            transform=f"scale({width / len(summary.strip):.2f} 1)",
        ),
        class_="heat",
        role="img",
        transform=f"translate({x:.1f} {y:.1f})",
    )


def heats(summary: Summary) -> list[str]:
    """The class of each cell: `hp4` for the largest number, `hn1` for one little below 0, `nf` for NaN and infinity.

    >>> heats(Summary("-1", "4", "5", zeros=1, nans=1, infinities=0, strip=("4", "-1", "0", "nan", "0.1")))
    ['hp4', 'hn1', '', 'nf', 'hp1']
    """
    most = max((abs(float(bound)) for bound in (summary.low, summary.high) if bound), default=0.0)
    return [_heat_of(float(each), most) for each in summary.strip]


def _heat_of(value: float, most: float) -> str:
    if not math.isfinite(value):
        return "nf"
    if not value or not most:
        return ""
    return f"h{'p' if value > 0 else 'n'}{max(1, min(LEVELS, math.ceil(abs(value) / most * LEVELS - 0.01)))}"
