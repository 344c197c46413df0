"""What is said, before a language is chosen: a template of the catalogue and the words for its gaps.

Who finds something chooses the Phrase; who shows it says it. A word may be a Phrase itself (`the result of {op} on
line {line}` in a sentence about a tensor without a name), so nothing that was said is ever read back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from string import Formatter

from seegrad.words.languages import _, closed, counted, marked, together

AND = marked(" and ")


@dataclass(frozen=True, slots=True)
class Phrase:
    """An English template, which is the id of its translations, and what fills its gaps.

    `many` is the template for any `count` but one. What has no translation is said as it stands.
    """

    template: str
    words: tuple[tuple[str, str | int | Phrase], ...] = ()
    many: str = ""


Word = str | int | Phrase
"""What may fill a gap: the user's own words and numbers as they are, or a Phrase."""


def phrase(template: str, /, **words: Word) -> Phrase:
    """The template with those of the words that it has gaps for.

    >>> phrase("`{op}` ran", op="exp", line=3)
    Phrase(template='`{op}` ran', words=(('op', 'exp'),), many='')
    """
    return Phrase(template, tuple((name, words[name]) for name in dict.fromkeys(gaps(template))))


def plural(one: str, many: str, count: int) -> Phrase:
    """The template for this count, which languages tell apart in their own ways.

    >>> say(plural("{count} Node", "{count} Nodes", 2))
    '2 Nodes'
    """
    return Phrase(one, (("count", count),), many)


def gaps(template: str) -> list[str]:
    """The names of a template's gaps, in their order."""
    return [name for _text, name, _format, _conversion in Formatter().parse(template) if name]


def joined(words: Iterable[Word]) -> Word:
    """Several words as one: `a`, `a` and `b`; empty where there's none."""
    items = list(words)
    if len(items) < 2:
        return items[0] if items else ""
    named = {f"word{number}": item for number, item in enumerate(items)}
    return phrase("{and_}".join(f"{{{name}}}" for name in named), and_=Phrase(AND), **named)


def say(word: Word) -> str:
    """In the language that is spoken now.

    >>> say(phrase("`{op}` ran on {where}", op="exp", where=phrase("line {line}", line=3)))
    '`exp` ran on line 3'
    """
    if not isinstance(word, Phrase):
        return str(word)
    said = {name: say(each) for name, each in word.words}
    count = dict(word.words).get("count")
    template = counted(word.template, word.many, count) if word.many and isinstance(count, int) else _(word.template)
    return template.format(**said)


def told(*sentences: Word) -> str:
    """Whole sentences as one text, in the language that is spoken now; a Phrase that begins one gets a capital.

    >>> told(phrase("{where} ran.", where=phrase("line {line}", line=3)), phrase("{name} is new.", name="a"))
    'Line 3 ran. a is new.'
    """
    return closed(together(*(_capital(say(each)) if _begins_small(each) else say(each) for each in sentences)))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _begins_small(sentence: Word) -> bool:
    """True where a Phrase within it comes first: not its own words, nor the user's, who may write `a` small."""
    inner = sentence
    while isinstance(inner, Phrase) and _(inner.template).startswith("{"):
        inner = dict(inner.words)[gaps(_(inner.template))[0]]
    return isinstance(inner, Phrase) and inner is not sentence
