"""How wide a text is where each character takes one column, or two: Chinese, and a picture's monospaced face."""

from __future__ import annotations

import unicodedata

NOT_FIRST = "，。、；：？！）》」』】”’…·"  # no line begins with one of these


def columns(text: str) -> int:
    """Columns of a monospaced face: two for a Chinese character, none for a mark that sits on another.

    >>> columns("saved"), columns("保存的 v0")
    (5, 9)
    """
    return sum(map(_of_one, text))


def _of_one(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def padded(text: str, width: int) -> str:
    """The text with blanks behind it, up to that many columns.

    >>> padded("得到", 6) + "|"
    '得到  |'
    """
    return text + " " * (width - columns(text))


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at blanks and between Chinese characters, never before a full stop.

    >>> wrapped("读完这一句，再看 out 的版本。", 12)
    ['读完这一句，', '再看 out 的', '版本。']
    """
    lines, line = [], ""
    for piece in _pieces(text):
        if line and columns(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece if line else piece.lstrip()
        while columns(line.rstrip()) > width:  # one word that is wider than the line
            fits = _fitting(line, width)
            lines.append(line[:fits])
            line = line[fits:]
    return [*lines, line.rstrip()] if line.strip() else lines


def _pieces(text: str) -> list[str]:
    """What may stand alone on a line: a word with its blanks, or one Chinese character with its punctuation."""
    pieces: list[str] = []
    joins = False
    for character in text:
        wide = _of_one(character) == 2 and character not in NOT_FIRST
        if pieces and character.isspace():
            pieces[-1] += character
            joins = False
        elif pieces and (character in NOT_FIRST or (joins and not wide)):
            pieces[-1] += character
        else:
            pieces.append(character)
            joins = not wide
    return pieces


def _fitting(text: str, width: int) -> int:
    taken = 0
    for k, character in enumerate(text):
        taken += _of_one(character)
        if taken > width:
            return max(k, 1)
    return len(text)
