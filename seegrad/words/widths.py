"""How wide a text is where each character takes one column, or two: Chinese, and a picture's monospaced face."""

from __future__ import annotations

import re

import wcwidth

NOT_FIRST = "，。、；：？！）》」』】”’…·"  # no line begins with one of these
WIDE = "\u2e80-\U0010ffff"  # where Chinese begins: a line may be broken between two of these
PIECE = re.compile(rf"((?![{NOT_FIRST}])[{WIDE}]|([^\s{WIDE}]|[{NOT_FIRST}])+)[\s{NOT_FIRST}]*")


def columns(text: str) -> int:
    """Columns of a monospaced face: two for a Chinese character, none for a mark that sits on another.

    >>> columns("saved"), columns("保存的 v0")
    (5, 9)
    """
    return wcwidth.width(text)


def padded(text: str, width: int) -> str:
    """The text with blanks behind it, up to that many columns.

    >>> padded("得到", 6) + "|"
    '得到  |'
    """
    return wcwidth.ljust(text, width)


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at blanks and between Chinese characters, never before a full stop.

    >>> wrapped("读完这一句，再看 out 的版本。", 12)
    ['读完这一句，', '再看 out 的', '版本。']
    """
    lines = [""]
    for piece in PIECE.finditer(text):
        if lines[-1] and columns(lines[-1] + piece[0].rstrip()) > width:
            lines.append("")
        lines[-1] += piece[0]
        if columns(lines[-1].rstrip()) > width:  # one word that is wider than the line
            lines[-1:] = wcwidth.wrap(lines[-1], width, break_on_hyphens=False, drop_whitespace=False)
    return [line.strip() for line in lines if line.strip()]
