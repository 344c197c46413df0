"""`nbjudge similar` on a course: what is read, what page and table say, and that no text of a student's acts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from playwright.sync_api import Page

from nbjudge.pages import classmates
from nbjudge.pages.classmates import Compared
from nbjudge.pages.similar.fingerprints import prints
from nbjudge.pages.similar.pairs import nearer
from nbjudge.pages.similar.words import WORDS
from nbjudge.shown.tokens import tokens_of
from nbjudge_tests.browsers import visit
from nbjudge_tests.classroom import authors, small
from nbjudge_tests.classroom.commands import nbgrader, python
from nbjudge_tests.classroom.gradebook import rows
from nbjudge_tests.session import first_of

AXE = small.ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
MIXED_PROSE = (
    "We keep what the engine saved in order to walk back over every step that it took before, one after another"
)
ESSAY = (
    f"{MIXED_PROSE}; so nobody has to compute it again, and the memory it needs grows with the length of the program "
    * 2
)
BOMB = "    \n" * 9000 + "x"  # keeps the tokenizer's regular expression busy for minutes
FORGED = "zed\ns1      s2       1.00      1234"  # a row of the table, if it were printed as it is
HOSTILE = "note = '''</pre></mark><script>window.stolen = 1</script>'''\n"


def hand_in(root: Path, student: str, code: str, prose: str = "So.") -> None:
    folder = small.hand_in(root, student, {**small.RIGHT, "why": prose})
    book = nbformat.read(folder / "coding.ipynb", as_version=4)
    book.cells.append(new_code_cell(code))
    nbformat.write(book, folder / "coding.ipynb")


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten who know nothing of each other, a copy of one, an essay handed in twice, a bomb, a broken file.

    One hides a copy behind a notebook that nobody grades; two folders have names that are no student's.
    """
    root = small.make(tmp_path_factory.mktemp("similar") / "course")
    nbgrader(root, "generate_assignment", small.NAME)
    for number in range(10):
        hand_in(root, f"s{number}", authors.program(number))
    hand_in(root, "copy", HOSTILE + authors.renamed(authors.reordered(authors.program(4))))
    hand_in(root, "essay_a", "", ESSAY)
    hand_in(root, "essay_b", "", ESSAY.upper().replace(",", " –"))
    hand_in(root, "bomb", BOMB)
    hand_in(root, "hides", authors.program(5))
    junk = nbformat.v4.new_notebook(cells=[new_code_cell(authors.program(99) * 30)])
    nbformat.write(junk, root / "submitted" / "hides" / small.NAME / "aaa.ipynb")
    for name in (FORGED, "the reference answer"):
        hand_in(root, name, authors.program(3))
    (small.hand_in(root, "broken", small.RIGHT) / "coding.ipynb").write_text('{"cells": [')
    return root


@pytest.fixture(scope="module")
def said(course: Path) -> str:
    return python(course, "-m", "nbjudge", "similar", small.NAME, "--to", "page.html", status=1)


def test_the_table_names_the_pairs_and_says_that_it_is_a_hint(said: str) -> None:
    told = [line.split()[:2] for line in said.splitlines() if re.search(r"\d\.\d\d +\d+$", line)]
    assert sorted(told) == [["copy", "s4"], ["essay_a", "essay_b"], ["hides", "s5"]]
    assert classmates.HINT in said
    assert "Submissions compared: 14." in said


def test_who_can_t_be_read_is_named_and_stops_nobody(said: str) -> None:
    assert "bomb isn't compared: it takes longer than 3 s" in said
    assert "broken isn't compared: 'coding.ipynb' is not a notebook" in said


def test_a_folder_s_name_that_is_no_student_s_forges_no_row(course: Path, said: str) -> None:
    for shown in (said, (course / "page.html").read_text().replace("&#39;", "'")):
        assert re.search(r"'zed\\+ns1 .*' isn't compared: a folder of this name isn't looked at", shown)
        assert "'the reference answer' isn't compared" in shown


def test_what_is_too_long_to_be_compared_as_a_whole_is_said(said: str) -> None:
    assert re.search(r"hides has written more than is compared: the first 50000 characters, not the \d+ after", said)


@pytest.mark.whole  # the same page, in other words: they are compared below
def test_the_page_speaks_the_course_s_language(course: Path, tmp_path: Path) -> None:
    root = tmp_path / "course"
    shutil.copytree(course, root)
    with (root / "nbgrader_config.py").open("a") as file:
        file.write('\nc.FeedbackPages.language = "zh_CN"\n')
    python(root, "-m", "nbjudge", "similar", small.NAME, status=1)
    page = (root / f"similar-{small.NAME}.html").read_text()
    assert '<html lang="zh-Hans">' in page
    assert "相似的作业" in page
    assert not re.search(r"Pairs|Nearness|Overview", page)


def test_both_languages_have_the_same_words_with_the_same_gaps() -> None:
    assert WORDS["zh_CN"].keys() == WORDS["en"].keys()
    for name, text in WORDS["en"].items():
        assert sorted(re.findall(r"{\w+}", WORDS["zh_CN"][name])) == sorted(re.findall(r"{\w+}", text))


def test_nothing_is_written_to_the_gradebook(course: Path, said: str) -> None:
    assert said
    assert not [row for row in rows(course) if row]


def test_what_a_student_leaves_as_it_was_given_is_nobody_s_own(course: Path, said: str) -> None:
    assert said
    page = (course / "page.html").read_text()
    assert "import math" not in page
    assert "def double" not in page


def test_a_name_that_no_assignment_has_is_said(course: Path) -> None:
    told = python(course, "-m", "nbjudge", "similar", "smalll", status=2)
    assert "this course has no assignment 'smalll'. Did you mean small?" in told
    told = python(course, "-m", "nbjudge", "similar", small.NAME, "--given", "nowhere", status=2)
    assert "there is no folder nowhere" in told


@pytest.mark.whole  # what is given is taken out, by functions: test_similar
def test_other_releases_are_taken_out_where_they_are_named(course: Path, tmp_path: Path) -> None:
    root = tmp_path / "course"
    shutil.copytree(course, root)
    shutil.rmtree(root / "submitted" / "bomb")
    (root / "zh").mkdir()
    shutil.copy(root / "submitted" / "essay_a" / small.NAME / "writing.ipynb", root / "zh")
    told = python(root, "-m", "nbjudge", "similar", small.NAME, "--given", "zh", status=1)
    assert "essay_b" not in told


# ---------------------------------------------------------------------- as a reader sees it


def compared() -> Compared:
    """A class with two pairs, hostile text among it."""
    texts = {f"s{number}": authors.program(number) for number in range(8)}
    texts["<b>copy</b>\u202e"] = HOSTILE + authors.renamed(authors.program(4))
    texts["other"] = authors.padded(authors.program(2))
    group = [prints(name, [tokens_of("code", text)]) for name, text in texts.items()]
    own = {name: (("code", text),) for name, text in texts.items()}
    return Compared("small", nearer(group, ()), own, {"bomb": "it took longer than 3 s"})


@pytest.fixture(scope="module")
def made() -> str:
    return classmates.page(compared())


def test_every_text_of_a_student_s_is_escaped(made: str) -> None:
    assert "<script" not in made
    assert "&lt;script&gt;window.stolen" in made
    assert "<b>copy" not in made
    assert "\u202e" not in made


def test_the_marked_parts_of_a_copy_are_the_text_but_for_what_was_added(made: str) -> None:
    body = made[made.index('id="pair-1"') : made.index('id="pair-2"')]
    marked = "".join(re.findall(r"<mark[^>]*>(.*?)</mark>", body, re.DOTALL))
    whole = authors.program(4) + authors.renamed(authors.program(4))
    assert len(re.sub(r"\s", "", marked)) > 0.75 * len(re.sub(r"\s", "", whole))


def test_a_class_without_a_pair_says_so() -> None:
    told = classmates.page(Compared("small", nearer([], ()), {}, {}))
    assert "Pairs: 0" in told
    assert classmates.table(Compared("small", nearer([], ()), {}, {}))[0] == "No pair is nearer than the class is."


@pytest.mark.browser
@pytest.mark.skipif(not AXE.exists(), reason="axe-core isn't installed; run: cd frontend && npm ci")
@pytest.mark.parametrize("theme", first_of(["light", "dark"]))
def test_axe_finds_nothing(theme: str, made: str, tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, made.replace("Content-Security-Policy", "x-not-a-policy"), theme)
    tab.add_script_tag(path=AXE)
    found = tab.evaluate("axe.run(document).then((result) => result.violations)")
    assert [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in found] == []


@pytest.mark.browser
@pytest.mark.parametrize("width_px", [320, 390, 1280])
def test_both_texts_fit_the_window_and_none_asks_the_network(
    width_px: int, made: str, tab: Page, tmp_path: Path
) -> None:
    """Nor is anything of a text, marks on marks say, drawn outside of its box."""
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.set_viewport_size({"width": width_px, "height": 800})
    visit(tab, tmp_path, made)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width_px
    assert [url.partition(":")[0] for url in asked] == ["file"]
    assert tab.evaluate("window.stolen") is None
    boxes = tab.locator("pre").evaluate_all("(all) => all.map((box) => getComputedStyle(box).contain)")
    assert set(boxes) == {"paint"}
    tops = tab.locator(".sides").first.locator("section").evaluate_all("(all) => all.map((s) => s.offsetTop)")
    assert (tops[0] == tops[1]) is (width_px == 1280)  # side by side where there is room


@pytest.mark.browser
def test_every_link_leads_to_its_passage_in_the_other_text(made: str, tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, made)
    inside = tab.locator("a[href^='#']").evaluate_all("(all) => all.map((a) => !!document.querySelector(a.hash))")
    assert len(inside) > 4
    assert all(inside)
