"""The pictures on which exercises are answered: none of their words tells an answer; axe finds nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from nbjudge_tests.session import one_in
from seegrad.display.page import pair_page
from tests.browser.test_open_questions import VISIBLE
from tests.browser.test_pictures import findings, needs_axe, visit, without_policy
from tests.course.assignments.test_answered_on_graph import MASTERS, NONE_ON_A_GRAPH, picked

pytestmark = pytest.mark.browser

TELLS = re.compile(
    r"\bsave[sd]?\b|\bversions?\b|\bv\d\b|\.grad\b|AccumulateGrad|\bleaf|requires|in.place|same bytes|raise"
)
ASKED = sorted(set(MASTERS) - NONE_ON_A_GRAPH)


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1000, "height": 1000}, reduced_motion="reduce")
    yield page
    page.close()


def without(text: str, own: list[str]) -> str:
    """What is said beside what the exercise says itself."""
    for word in own:
        text = text.replace(word, "")
    return text


@pytest.mark.parametrize("name", one_in(3, ASKED))
def test_no_word_on_screen_tells_an_answer(name: str, tab: Page, tmp_path: Path) -> None:
    for each in picked(name):
        question = each.scene.question
        assert question is not None
        assert not visit(tab, tmp_path, pair_page([each.scene], ""))
        asked = {word for choice in question.choices for word in (choice.label, choice.key.split("\t")[0])}
        own = [line.strip() for line in each.program.splitlines()] + [word for word in asked if len(word) > 2]
        tab.locator(".sg-tl input").focus()
        tab.keyboard.press("Home")
        for _ in each.scene.frames:
            said = [text for text in tab.evaluate(VISIBLE) if not text.startswith(("rect ", "path ", "circle "))]
            assert len(said) > 10
            assert not [text for text in said if TELLS.search(without(text, own))]
            tab.keyboard.press("ArrowRight")


@needs_axe
def test_axe_finds_nothing(tab: Page, tmp_path: Path) -> None:
    each = next(picked("01_computational_graphs"))
    visit(tab, tmp_path, without_policy(pair_page([each.scene], "")), "dark")
    tab.locator(".sg-cv .tn", has=tab.locator(".nm:text-is('w')")).click()
    expect(tab.locator(".sg-cv .qe")).to_have_text("gradient")
    assert findings(tab) == []


def test_an_exercise_fits_a_telephone(tab: Page, tmp_path: Path) -> None:
    tab.set_viewport_size({"width": 390, "height": 800})
    for each in picked("01_computational_graphs"):
        visit(tab, tmp_path, pair_page([each.scene], ""))
        room, used = tab.evaluate(
            "(() => { const q = document.querySelector('.sg-q'); return [q.clientWidth, q.scrollWidth]; })()"
        )
        assert used <= room + 1


CODE_BESIDE_NUMBERS = """[...document.querySelectorAll('.sg-cd li')].map((line) => {
  const range = document.createRange();
  range.selectNodeContents(line.querySelector('button') ?? line);
  const left = line.getBoundingClientRect().left + line.clientLeft;
  const numbersEnd = left + parseFloat(getComputedStyle(line, '::before').width);
  return range.getClientRects()[0].left - numbersEnd;
})"""


def test_no_number_of_a_line_lies_on_its_code(tab: Page, tmp_path: Path) -> None:
    """A button within the line would be indented a second time."""
    for each in picked("05_data_versus_detach"):
        visit(tab, tmp_path, pair_page([each.scene], ""))
        assert min(tab.evaluate(CODE_BESIDE_NUMBERS)) >= 4
