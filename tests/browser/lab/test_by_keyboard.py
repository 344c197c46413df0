"""A whole chapter without a mouse: every cell is run, every question in a picture answered, by keys alone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.lab.harness import Lab, Watched, open_notebook
from tests.browser.lab.test_chapter import CHAPTER, assert_quiet

pytestmark = [pytest.mark.browser, pytest.mark.whole]

TIMEOUT_MS = 60_000
MOST_KEYS = 120  # Tab leads through whatever is on the page
IN_CELL = "(cell) => document.activeElement === cell"
WHERE = """(picture) => {
  const e = document.activeElement;
  if (!picture.contains(e)) return "outside";
  if (e.matches(".sg-check")) return "check";
  if (e.matches(".sg-q input")) return e.type;
  return e.matches(".sg-cd button, [data-st]") ? "part" : "else";
}"""
KEY = {"radio": "Space", "checkbox": "Space", "part": "Enter", "check": "Enter"}


def tab_to(page: Page, cell: Locator, key: str) -> None:
    """On to this cell itself."""
    for _ in range(MOST_KEYS):
        if cell.evaluate(IN_CELL):
            return
        page.keyboard.press(key)
    pytest.fail("no way leads back to the cell")


def answer(page: Page, picture: Locator) -> None:
    """Tab through it; whatever can be answered gets one answer, and the button, once it can be pressed, the rest."""
    for _ in range(MOST_KEYS):
        page.keyboard.press("Tab")
        where = picture.evaluate(WHERE)
        if where == "text":
            page.keyboard.type("1")
        elif where == "part" and picture.locator(".sg-cv [aria-pressed=true], .sg-cd [aria-pressed=true]").count():
            continue
        elif where in KEY:
            page.keyboard.press(KEY[where])
        if where == "check":
            return
    pytest.fail("no key answers the question")


def test_every_question_of_a_chapter_is_answered(lab: Lab, watched: Watched) -> None:
    page = watched.page
    open_notebook(page, lab, CHAPTER)
    cells = page.locator(".jp-NotebookPanel:visible .jp-Cell")
    answered = 0
    for place in range(cells.count()):
        cell = cells.nth(place)
        tab_to(page, cell, "Tab")
        page.keyboard.press("Shift+Enter")
        if "jp-CodeCell" not in str(cell.get_attribute("class")):
            continue
        expect(cell.locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"), timeout=TIMEOUT_MS)
        source = str(cell.locator(".cm-content").inner_text())
        questions = 2 if "ask_again(" in source else int("--ask" in source)
        if not questions:
            continue
        asks = cell.locator(".sg[data-asks]")
        expect(asks).to_have_count(questions, timeout=TIMEOUT_MS)
        page.keyboard.press("ArrowUp")
        while count := asks.count():
            answer(page, asks.first)
            expect(asks).to_have_count(count - 1)
            answered += 1
        for verdict in cell.locator(".sg-qv").all():
            expect(verdict).not_to_be_empty()
        tab_to(page, cell, "Shift+Tab")
        page.keyboard.press("ArrowDown")
    assert answered >= 8
    expect(page.locator(".sg[data-asks]")).to_have_count(0)
    assert_quiet(watched)
