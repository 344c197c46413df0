"""Texts that are alike, kept once: what they share as a template, what differs as numbers.

A large picture is thousands of texts (a step, a card, a line of the inspector) that differ in a few numbers each.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

NUMBER = re.compile(r"\d[\d.]*")
HOLE = re.compile("\ue002(\\d+)\ue003")
"""A gap in a template, around its number; the player fills it by the same rule."""
BETWEEN = ";"


def packed(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Templates, and for each text a row: its template's number, then what stands in the gaps, with spaces between.

    >>> packed(["v1 of x1", "v2 of x2", "none"])
    (['v\\ue0020\\ue003 of x\\ue0020\\ue003', 'none'], ['0 1', '0 2', '1'])
    """
    alike: dict[str, list[int]] = defaultdict(list)
    for k, text in enumerate(texts):
        alike[NUMBER.sub("\ue002", text)].append(k)
    templates, rows = [], [""] * len(texts)
    for number, (skeleton, members) in enumerate(alike.items()):
        columns = list(zip(*(NUMBER.findall(texts[k]) for k in members), strict=True))
        gaps: dict[tuple[str, ...], int] = {}
        filled = []
        for column in columns:
            same = len(set(column)) == 1
            filled.append(column[0] if same else f"\ue002{gaps.setdefault(column, len(gaps))}\ue003")
        pieces = skeleton.split("\ue002")
        templates.append("".join(piece + gap for piece, gap in zip(pieces, [*filled, ""], strict=True)))
        for k, values in zip(members, zip(*gaps, strict=True) if gaps else [()] * len(members), strict=True):
            rows[k] = " ".join((str(number), *values))
    return templates, rows


def unpacked(templates: Sequence[str], row: str) -> str:
    """The text of one row.

    >>> unpacked(*(lambda templates, rows: (templates, rows[1]))(*packed(["v1 of x1", "v2 of x2"])))
    'v2 of x2'
    """
    number, *values = row.split(" ")
    return HOLE.sub(lambda gap: values[int(gap[1])], templates[int(number)])
