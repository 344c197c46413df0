"""Which language to speak, and a template's words in it. English templates are the ids of the catalogues.

`_` translates where a sentence is made, in the language that `speaking` set, else in the reader's own; `marked` only
marks a template that stands in a table and is translated later. Without a translation the English words are said.
"""

from __future__ import annotations

import gettext
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path, PurePath

LANGUAGES = ("en", "zh_CN")
LOCALE = Path(__file__).parents[1] / "locale"
DOMAIN = "seegrad"
TAG = re.compile(r"(?P<tongue>[a-z]{2})([-_](hans|hant|[a-z]{2}))*(\.[\w-]+)?(@\w+)?", re.IGNORECASE)

CHINESE = "一-鿿，。；：、！？（）「」“”"
BLANK = re.compile(rf"(?<=[{CHINESE}]) +(?=[{CHINESE}])")

_spoken: ContextVar[str | None] = ContextVar("seegrad_language", default=None)


def known(name: str | None) -> str | None:
    """The language that a name such as `zh`, `zh-CN` or `zh_CN.UTF-8` means; None for one that isn't spoken here.

    >>> known("zh-Hans-CN"), known("en_GB.UTF-8"), known("fr")
    ('zh_CN', 'en', None)
    """
    tag = TAG.fullmatch(name or "")
    return next((each for each in LANGUAGES if tag and each[:2] == tag["tongue"].lower()), None)


def language(wanted: str | None = None) -> str:
    """The first that names a language spoken here: `wanted`, SEEGRAD_LANG, a folder of the notebook; else English.

    Jupyter tells a kernel its notebook's path; where nobody does (Validate, VS Code) it's the working folder.

    >>> language("zh")
    'zh_CN'
    """
    names = (wanted, os.environ.get("SEEGRAD_LANG"), *reversed(_folders()))
    return next((found for found in map(known, names) if found), "en")


def _folders() -> tuple[str, ...]:
    """The folders that the running notebook lies in, outermost first."""
    notebook = os.environ.get("JPY_SESSION_NAME")
    if notebook:
        return PurePath(notebook).parts[:-1]
    try:
        return Path.cwd().parts
    except OSError:  # the working folder is gone
        return ()


@contextmanager
def speaking(lang: str | None) -> Iterator[str]:
    """In this block `_` speaks `lang`, else what was spoken before, else `language()`; the block is given which.

    >>> with speaking("zh"), speaking(None) as lang:
    ...     lang
    'zh_CN'
    """
    spoken = known(lang) or _spoken.get() or language()
    token = _spoken.set(spoken)
    try:
        yield spoken
    finally:
        _spoken.reset(token)


def marked(template: str) -> str:
    """A template in a table: the extractor finds it here, `_` translates it when it is said."""
    return template


def _(template: str) -> str:
    """The template in the language that is spoken now."""
    return translate(template, _spoken.get() or language())


def counted(one: str, many: str, count: int) -> str:
    """The template for this count: languages differ in how many forms they have."""
    return catalogue(_spoken.get() or language()).ngettext(one, many, count)


def together(*sentences: str) -> str:
    """Several sentences as one text; empty ones are left out.

    >>> together("One.", "", "Two.")
    'One. Two.'
    """
    said = [each for each in sentences if each]
    text = said[0] if said else ""
    for each in said[1:]:
        text = _("{first} {then}").format(first=text, then=each)
    return text


def closed(text: str) -> str:
    """The text without the blanks between two Chinese characters, which a template can't know of.

    >>> closed("一个张量 被改写了，之后 out 的版本是 1。")
    '一个张量被改写了，之后 out 的版本是 1。'
    """
    return BLANK.sub("", text)


def translate(template: str, lang: str) -> str:
    """The template in `lang`, English where there's none."""
    return catalogue(lang).gettext(template) if template else template


@cache
def catalogue(lang: str) -> gettext.NullTranslations:
    """All that is said in a language."""
    return gettext.translation(DOMAIN, LOCALE, [lang], fallback=True)
