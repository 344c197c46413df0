"""INSIDE the sandbox: what somebody wrote → tokens that say how it is built, not how it is called, spelled or laid out.

Names are alike, literals are alike, comments, docstrings and white space are gone. What a library or Python itself is
asked for keeps its name: nobody can call that otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Name, Number, Operator, Punctuation, String, Whitespace, _TokenType

Token = tuple[str, int, int]  # the word that stands for it, where it begins and ends in the text

NAME, NUMBER, STRING = "n", "0", "s"
BINDS_NEXT = frozenset({"def", "class", "as", "for", "global", "nonlocal"})
WORDS = re.compile(r"[㐀-鿿]|[^\W_㐀-鿿]+")  # a Chinese character is a word


def tokens_of(kind: str, source: str) -> list[Token]:
    """The tokens of a cell: `code`, or else prose.

    >>> [word for word, _, _ in tokens_of("code", "total = xs.sum( 3 ) # all")]
    ['n', '=', 'n', '.', 'sum', '(', '0', ')']
    >>> tokens_of("prose", "Because it's 图.")
    [('because', 0, 7), ('it', 8, 10), ('s', 11, 12), ('图', 13, 14)]
    """
    if kind != "code":
        return [(match[0].lower(), *match.span()) for match in WORDS.finditer(source)]
    lexed = list(_lexed(source))
    own = set(_given(lexed))
    return [
        (_word(type_, text, lexed[place - 1][1] if place else "", own), at, at + len(text))
        for place, (type_, text, at) in enumerate(lexed)
    ]


def tokens_as_json(asked: str) -> str:
    """The same for several cells, `[[kind, source], …]`, as the scribe is asked."""
    return json.dumps([tokens_of(kind, source) for kind, source in json.loads(asked)], separators=(",", ":"))


def _lexed(source: str) -> Iterator[tuple[_TokenType, str, int]]:
    """What counts of Pygments' tokens; all pieces of a string as one. It reads what isn't Python, too."""
    pending: tuple[int, int] | None = None  # a string that may go on
    for at, type_, text in PythonLexer(ensurenl=False, stripnl=False).get_tokens_unprocessed(source):
        if type_ in String and type_ not in String.Interpol:
            if type_ not in String.Doc:
                pending = (pending[0] if pending else at, at + len(text))
            continue
        if type_ in Comment or type_ in Whitespace or not text.strip():
            continue
        if pending:
            yield String, source[slice(*pending)], pending[0]
            pending = None
        yield type_, text, at
    if pending:
        yield String, source[slice(*pending)], pending[0]


def _given(lexed: list[tuple[_TokenType, str, int]]) -> Iterator[str]:
    """Names that the text itself gives away, attributes too; it may call those as it likes."""
    for place, (type_, text, _) in enumerate(lexed):
        after = lexed[place + 1] if place + 1 < len(lexed) else (Punctuation, "", 0)
        before = lexed[place - 1][1] if place else ""
        if type_ in Name and (before in BINDS_NEXT or (after[0] in Operator and after[1] == "=")):
            yield text


def _word(type_: _TokenType, text: str, before: str, own: set[str]) -> str:
    if type_ in Number:
        return NUMBER
    if type_ in String and type_ not in String.Interpol:
        return STRING
    if type_ in Name and not (before == "." and text not in own) and not _pythons(type_, text, own):
        return NAME
    return text


def _pythons(type_: _TokenType, text: str, own: set[str]) -> bool:
    return (type_ in Name.Builtin or type_ in Name.Exception) and type_ not in Name.Builtin.Pseudo and text not in own
