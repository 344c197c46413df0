"""Chapters in Chinese: the code of the English ones, all of their prose, the same points from the same gradebook."""

from __future__ import annotations

import copy
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from nbjudge_tests.classroom.commands import nbgrader
from nbjudge_tests.classroom.small import configure
from tools import book
from tools.course.masters import BookError, read_master
from tools.course.offline_page import Way, chapter_page, front_page
from tools.words import catalogue, entries, translations

ROOT = Path(__file__).parents[3]
LANG = "zh_CN"
NAMES = translations.names(ROOT, LANG)
COURSE = book.CourseFiles()
MASTER = """# %% [markdown]
# # A title
#
# Some words about `x`, and $x^2$; see `release/en/01_first`.
#
# ```
# code stays
#
# as it is
# ```

# %%
x = 1

# %% [markdown] grade_id="told" kind="manual" points=100
# The answer.
"""
SENTENCE = "Some words about `x`, and $x^2$; see `release/en/01_first`."
TRANSLATED = {
    "# A title": "# 标题",
    SENTENCE: "关于 `x` 和 $x^2$ 的几句话，见 `release/zh_CN/01_first`。",
}


def notebooks(name: str) -> list[tuple[Path, Path]]:
    """(English, Chinese) of a chapter, with its outputs, and its release."""
    pairs = [(COURSE.executed(name), COURSE.executed(name, LANG))]
    pairs += [(COURSE.release(name) / f"{name}.ipynb", COURSE.release(name, LANG) / f"{name}.ipynb")]
    return [pair for pair in pairs if pair[0].exists()]


NO_PROSE = re.compile(r"```.*?```|`[^`]*`|\$[^$]*\$|\(https?:[^)]*\)|</?\w+>", re.DOTALL)
PAIRS = [pair for name in NAMES for pair in notebooks(name)]


def test_every_chapter_and_every_assignment_is_in_chinese() -> None:
    masters = [*(ROOT / "notebooks").glob("*.py"), *(ROOT / "source").glob("*.py")]
    assert {path.stem for path in masters} == set(NAMES)
    assert len(PAIRS) == len(masters)
    assert not [pair for pair in PAIRS if not pair[1].exists()]


@pytest.mark.parametrize("name", NAMES)
def test_emphasis_ends_where_it_should(name: str) -> None:
    """Between Chinese marks and letters without a space, `*…。*` is no emphasis: its stars would be read."""
    parser = MarkdownIt("commonmark")
    cells = [cell for pair in notebooks(name) for cell in nbformat.read(pair[1], as_version=4).cells]
    texts = [re.sub(r"\$[^$]*\$", "", cell.source) for cell in cells if cell.cell_type == "markdown"]
    inline = [part for text in texts for block in parser.parse(text) for part in block.children or ()]
    assert [part.content for part in inline if part.type == "text" and "*" in part.content] == []


def unspoken(cell: Any) -> dict[str, Any]:
    """A cell without its prose and without what a picture says."""
    plain = {key: value for key, value in cell.items() if key not in ("outputs", "execution_count")}
    return {**plain, "source": ""} if is_prose(cell) else plain


def is_prose(cell: Any) -> bool:
    return cell.cell_type == "markdown" and not cell.metadata.get("nbgrader", {}).get("solution")


@pytest.mark.parametrize(("english", "chinese"), PAIRS, ids=lambda path: str(path.relative_to(ROOT).with_suffix("")))
def test_code_ids_points_and_order_are_the_same(english: Path, chinese: Path) -> None:
    ours, theirs = (nbformat.read(path, as_version=4) for path in (english, chinese))
    assert ours.metadata == theirs.metadata
    assert list(map(unspoken, ours.cells)) == list(map(unspoken, theirs.cells))
    for mine, yours in zip(ours.cells, theirs.cells, strict=True):
        kinds = [
            [(each.output_type, sorted(each.get("data", ()))) for each in cell.get("outputs", ())]
            for cell in (mine, yours)
        ]
        assert kinds[0] == kinds[1], mine.id


@pytest.mark.parametrize(("english", "chinese"), PAIRS, ids=lambda path: str(path.relative_to(ROOT).with_suffix("")))
def test_all_prose_is_chinese(english: Path, chinese: Path) -> None:
    for mine, yours in zip(*(nbformat.read(path, as_version=4).cells for path in (english, chinese)), strict=True):
        if is_prose(mine):
            assert re.search("[一-鿿]", yours.source), yours.source
            words = re.findall(r"[A-Za-z]+", NO_PROSE.sub("", yours.source))
            assert len(words) <= len(re.findall("[一-鿿]", yours.source)) / 3 + 2, yours.source


@pytest.mark.parametrize("name", NAMES)
def test_places_that_the_prose_names_are_there(name: str) -> None:
    for _, chinese in notebooks(name):
        prose = "\n".join(cell.source for cell in nbformat.read(chinese, as_version=4).cells if is_prose(cell))
        assert "release/en" not in prose
        assert "notebooks/en" not in prose
        for place in re.findall(r"`((?:release|notebooks)/[\w/.]+)`", prose):
            assert (ROOT / place).exists(), place


@pytest.mark.parametrize("name", NAMES)
def test_pictures_speak_chinese(name: str) -> None:
    text = COURSE.executed(name, LANG).read_text(encoding="utf-8")
    assert "自动求导图，第" in text
    assert "Autograd graph" not in text


def outline(text: str) -> list[str]:
    """What stays as it is: blocks of code, the levels of headings, where links and pictures lead."""
    own = {"README.zh_CN.md": "README.md", "notebooks/zh_CN": "notebooks/en", "pictures/zh_CN/": "pictures/"}
    for theirs, ours in own.items():
        text = text.replace(theirs, ours)
    return re.findall(r"```.*?```|^#+|\]\([^)]*\)|^\d+\.|^\|.*?\|", text, flags=re.DOTALL | re.MULTILINE)


def test_the_two_readmes_are_one_document_in_two_languages() -> None:
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh_CN.md"))
    ours, theirs = outline(english), outline(chinese)
    assert len(ours) > 30
    assert [each for each in ours if each[0] in "`#]"] == [each for each in theirs if each[0] in "`#]"]
    assert len(ours) == len(theirs)
    assert "(README.zh_CN.md)" in english.split("\n\n")[1]
    assert "(README.md)" in chinese.split("\n\n")[1]


@given(st.lists(st.sampled_from(["a", "b c", "```", "", " ", "- x", "```py"]), max_size=12).map("\n".join))
def test_paragraphs_join_to_the_cell(source: str) -> None:
    assert "".join(translations.paragraphs(source)) == source


@pytest.fixture
def course(tmp_path: Path) -> book.CourseFiles:
    """One assignment with a Chinese catalogue, translated."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "01_first.py").write_text(MASTER, encoding="utf-8")
    translations.begin(tmp_path, "01_first")
    catalogue.build(tmp_path)
    translate(tmp_path, TRANSLATED)
    return book.CourseFiles(tmp_path)


def translate(root: Path, words: dict[str, str]) -> None:
    path = translations.catalogue_of(root, LANG, "01_first")
    catalog = entries.read(path, LANG)
    for message in catalog:
        if message.id in words:
            message.string = words[message.id]
    path.write_bytes(entries.po_bytes(catalog, by_file=False))


def released(course: book.CourseFiles) -> list[str]:
    book.build(course)
    return [
        cell.source for cell in nbformat.read(course.release("01_first", LANG) / "01_first.ipynb", as_version=4).cells
    ]


def test_a_release_is_translated_and_its_code_is_not(course: book.CourseFiles) -> None:
    assert catalogue.check(course.root) == []
    assert released(course) == [
        "# 标题\n\n关于 `x` 和 $x^2$ 的几句话，见 `release/zh_CN/01_first`。\n\n```\ncode stays\n\nas it is\n```",
        "x = 1",
        "YOUR ANSWER HERE",
    ]
    assert book.check(course) == []


def test_what_a_translator_forgot_stops_the_build(course: book.CourseFiles) -> None:
    master = course.root / "source" / "01_first.py"
    master.write_text(MASTER.replace("Some words", "More words"), encoding="utf-8")
    with pytest.raises(BookError, match="zh_CN lacks 'More words"):
        book.build(course)
    assert any("isn't what the sources make" in complaint for complaint in catalogue.check(course.root))


@pytest.mark.parametrize(
    "wrong",
    [
        "关于 `y` 和 $x^2$，见 `release/zh_CN/01_first`。",
        "关于 `x` 和 $x^3$，见 `release/zh_CN/01_first`。",
        "关于 x。",
    ],
)
def test_changed_code_and_formulas_are_found(course: book.CourseFiles, wrong: str) -> None:
    translate(course.root, {SENTENCE: wrong})
    assert any("stay as they are" in complaint for complaint in catalogue.check(course.root))


def test_the_pages_of_the_course_speak_chinese() -> None:
    front = front_page(LANG, "")
    assert "<h1>理解 PyTorch autograd：全部课程</h1>" in front
    assert "十一章内容，可以直接在浏览器里阅读和操作。" in front
    ways = [Way(f"0{number}_x", "标题") for number in range(3)]
    chapter = chapter_page(nbformat.v4.new_notebook(), "01_x", LANG, ways, ["en", LANG])
    for said in (' aria-label="页面导航"', ">课程地图<", ">上一章: 标题<", ">下一章: 标题<"):
        assert said in chapter, said


def test_only_a_master_can_be_begun(tmp_path: Path) -> None:
    with pytest.raises(BookError, match="Write the master first"):
        translations.begin(tmp_path, "77_nothing")


@pytest.mark.whole
def test_a_chinese_submission_gets_the_same_points_from_the_same_gradebook(tmp_path: Path) -> None:
    """The gradebook is filled from the English source; one student hands in each language, with the same answers."""
    name = "05_data_versus_detach"
    configure(tmp_path)
    shutil.copytree(ROOT / "source" / name, tmp_path / "source" / name)
    nbgrader(tmp_path, "generate_assignment", name)
    solutions = {
        cell.grade_id: cell.source
        for cell in read_master(ROOT / "source" / f"{name}.py").cells
        if cell.kind == "solution"
    }
    for student, lang in (("ann", "en"), ("li", LANG)):
        made = copy.deepcopy(nbformat.read(COURSE.release(name, lang) / f"{name}.ipynb", as_version=4))
        for cell in made.cells:
            cell.source = solutions.get(cell.id, cell.source)
        folder = tmp_path / "submitted" / student / name
        folder.mkdir(parents=True)
        nbformat.write(made, folder / f"{name}.ipynb")
    nbgrader(tmp_path, "autograde", name)
    points = {student: scores(tmp_path, name, student) for student in ("ann", "li")}
    assert points["li"] == points["ann"]
    assert sum(score for score in points["li"].values() if score) == 85


def scores(root: Path, name: str, student: str) -> dict[str, float | None]:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as gradebook:
        submission = gradebook.find_submission(name, student)
        return {grade.name: grade.auto_score for notebook in submission.notebooks for grade in notebook.grades}
