"""What a text names is there: sections and headings of a chapter in both languages, a misconception's sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[3]
LANGUAGES = ("en", "zh_CN")
SECTIONS = {"en": r"[Ss]ections? (\d+(?:(?:, | and |, and )\d+)*)", "zh_CN": r"第 (\d+(?:[、和–到, ]+\d+)*) 节"}
CHAPTER = {"en": r"[Cc]hapter (\d\d)", "zh_CN": r"第 (\d\d) 章"}
QUOTED = r"“([^”]+)”"
CODE = re.compile(r"\*\*M\d\d\*\*")
SENTENCE = re.compile(r"\*\*(M\d\d)\*\*[,:：，]? ?“([^”]+)”")
CODE_WITH_SENTENCE = re.compile(r"\*\*M\d\d\*\*(?:,|:|：|，)? ?“")

NOTEBOOKS = [
    path
    for lang in LANGUAGES
    for path in (*(ROOT / "notebooks" / lang).glob("*.ipynb"), *(ROOT / "release" / lang).glob("*/*.ipynb"))
]
each_notebook = pytest.mark.parametrize("path", sorted(NOTEBOOKS), ids=lambda path: "-".join(path.parts[-3:]))


def language(path: Path) -> str:
    return next(lang for lang in LANGUAGES if lang in path.parts)


def prose(path: Path) -> list[str]:
    """A notebook's cells of text, each paragraph on a line of its own."""
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
    return [re.sub(r"(?<!\n)\n(?!\n)", " ", source) for source in cells]


def headings(lang: str, number: str) -> list[str]:
    (path,) = (ROOT / "notebooks" / lang).glob(f"{number}_*.ipynb")
    sources = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
    return [line.lstrip("# ").casefold() for source in sources for line in re.findall(r"^#+ .*", source, re.MULTILINE)]


def named(text: str, lang: str, number: str) -> Iterator[tuple[str, str, bool]]:
    """Chapter and section, or chapter and heading, that a paragraph names; its own chapter until it names another."""
    pattern = re.compile(f"{CHAPTER[lang]}|{SECTIONS[lang]}|{QUOTED}")
    here, about_sections = number, False
    for found in pattern.finditer(text):
        chapter, sections, quoted = found.groups()
        here, about_sections = chapter or here, about_sections or bool(chapter or sections)
        yield from ((here, one, True) for one in re.findall(r"\d+", sections or ""))
        if quoted and about_sections:
            yield here, quoted, False


def missing(text: str, lang: str, number: str, *, quotes: bool) -> list[str]:
    """What a text names and the chapter lacks."""
    return [
        f"chapter {chapter}: {name}"
        for paragraph in text.split("\n\n")
        for chapter, name, is_number in named(paragraph, lang, number)
        if (is_number or quotes)
        and not any(
            heading.startswith(f"{name} · ") if is_number else name.casefold().rstrip(",，") in heading
            for heading in headings(lang, chapter)
        )
    ]


@each_notebook
def test_a_section_that_a_text_names_is_there(path: Path) -> None:
    lang, number = language(path), path.stem[:2]
    assert not [lacks for text in prose(path) for lacks in missing(text, lang, number, quotes=False)]


@each_notebook
def test_a_heading_that_a_hint_names_is_there(path: Path) -> None:
    """A hint quotes nothing but headings once it has named a chapter or a section."""
    lang, number = language(path), path.stem[:2]
    hints = [text for text in prose(path) if text.startswith("<details><summary>") and path.parts[-4] == "release"]
    assert not [lacks for text in hints for lacks in missing(text, lang, number, quotes=True)]


OPTIONAL = {"en": "optional: ", "zh_CN": "选读："}
PATIENT = {"en": re.compile(r"[Pp]atient (\d)"), "zh_CN": re.compile(r"(\d) 号病人")}


@each_notebook
def test_a_hint_names_nothing_optional(path: Path) -> None:
    lang, number = language(path), path.stem[:2]
    hints = [text for text in prose(path) if text.startswith("<details><summary>") and path.parts[-4] == "release"]
    names = {found for text in hints for found in named(text, lang, number)}
    names |= {("08", found[0], False) for text in hints for found in PATIENT[lang].finditer(text)}
    for chapter, name, is_number in names:
        said = headings(lang, chapter)
        meant = [one for one in said if (one.startswith(f"{name} · ") if is_number else name.casefold() in one)]
        assert not meant or not all(OPTIONAL[lang] in one for one in meant), name


@each_notebook
def test_a_misconception_s_number_is_followed_by_its_sentence(path: Path) -> None:
    cells = prose(path)
    assert not [text for text in cells if len(CODE.findall(text)) != len(CODE_WITH_SENTENCE.findall(text))]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_misconception_has_one_sentence_in_all_chapters(lang: str) -> None:
    texts = [" ".join(text.split()) for path in NOTEBOOKS if language(path) == lang for text in prose(path)]
    said = {told for text in texts for told in SENTENCE.findall(text)}
    assert sorted(number for number, _ in said) == [f"M{number:02}" for number in range(1, 13)], sorted(said)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_chapter_ends_with_a_link_to_its_assignment(lang: str) -> None:
    """By the way from its own file, so that it leads there in a clone, in `my_work` and in the kit."""
    for path in sorted((ROOT / "notebooks" / lang).glob("*.ipynb")):
        found = [path.parent / to for text in prose(path)[-1:] for to in re.findall(r"\]\((\.\.[^)]*)\)", text)]
        meant = ROOT / "release" / lang / path.stem / path.name
        assert [one.resolve() for one in found] == ([meant] if meant.parent.exists() else []), path
        assert all(one.exists() for one in found), path


def test_a_pointer_to_nothing_is_found() -> None:
    said = (
        "Chapter 03, section 2, “Two backward calls” and “Culprit and victim”; section 40. "
        "And “words” of chapter 04, “Culprit and victim”."
    )
    assert missing(said, "en", "03", quotes=True) == [
        "chapter 03: Culprit and victim",
        "chapter 03: 40",
        "chapter 03: words",
    ]
    assert missing("第 03 章第 2 节“没有这一节”，第 40 节", "zh_CN", "03", quotes=True) == [
        "chapter 03: 没有这一节",
        "chapter 03: 40",
    ]
