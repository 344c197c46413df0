"""The numbers of a tensor that doesn't fit on its card: walked through by keys alone, wide and narrow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Page

import seegrad
from nbjudge_tests.session import one_in
from seegrad.display.page import page as page_text
from seegrad.model.recording import Recording
from tests.browser.test_pictures import findings, needs_axe, visit, without_policy

pytestmark = pytest.mark.browser


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    yield page
    page.close()


@pytest.fixture(scope="module")
def recording() -> Recording:
    x = torch.arange(60.0).reshape(3, 4, 5).requires_grad_()
    with seegrad.record(values=True) as rec:
        y = x.masked_fill(x.detach() == 37, math.inf)
        loss = y.sum()
        loss.backward()
    return rec.recording


def select(tab: Page, name: str) -> None:
    tab.locator(f'.nd.tn:has(text.nm:text-is("{name}"))').focus()
    tab.keyboard.press("Enter")


def open_numbers(tab: Page, name: str) -> None:
    """Select a card and open its numbers, without a mouse."""
    select(tab, name)
    tab.locator(".sg-nb summary").first.focus()
    tab.keyboard.press("Enter")
    tab.locator(".sg-nb [role=grid]").first.wait_for()
    while tab.evaluate("document.activeElement.tagName") != "TD":
        tab.keyboard.press("Tab")


def here(tab: Page) -> str:
    return str(tab.evaluate("document.activeElement.getAttribute('aria-label')"))


def test_rows_columns_and_slices_by_keyboard(recording: Recording, tab: Page, tmp_path: Path) -> None:
    wrong = visit(tab, tmp_path, page_text(recording))
    open_numbers(tab, "x")
    step = tab.locator(".sg-ct").inner_text()
    walked = [here(tab)]
    for key in ("ArrowRight", "ArrowDown", "PageDown", "End", "Control+Home", "PageUp", "ArrowLeft"):
        tab.keyboard.press(key)
        walked.append(here(tab))
    assert walked == [
        "[0, 0, 0] 0",
        "[0, 0, 1] 1",
        "[0, 1, 1] 6",
        "[1, 1, 1] 26",
        "[1, 1, 4] 29",
        "[1, 0, 0] 20",
        "[0, 0, 0] 0",
        "[0, 0, 0] 0",
    ]
    assert tab.locator(".sg-ct").inner_text() == step, "the arrows walk here, and step nowhere"
    assert wrong == []


def test_an_infinity_is_a_key_away_and_stands_out(recording: Recording, tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, page_text(recording))
    open_numbers(tab, "y")
    tab.keyboard.press("n")
    assert here(tab) == "[1, 3, 2] inf"
    colours = "(cell) => [getComputedStyle(cell).backgroundColor, getComputedStyle(cell).color]"
    assert tab.locator(".sg-nb td.nf").evaluate(colours) == ["rgb(31, 41, 51)", "rgb(255, 255, 255)"]
    assert tab.locator(".nd .nan:not(.ghost) text").all_text_contents() == ["±∞", "±∞"], "y, and the loss"


def test_where_one_was_is_remembered_when_the_step_changes(recording: Recording, tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, page_text(recording))
    open_numbers(tab, "x")
    tab.keyboard.press("PageDown")
    tab.keyboard.press("Escape")
    tab.locator(".sg-tl input").focus()
    tab.keyboard.press("Home")
    select(tab, "x")
    assert tab.locator(".sg-nb output").first.inner_text() == "[1, 0, 0] = 20"


@needs_axe
@pytest.mark.parametrize(("theme", "width"), one_in(3, product(("light", "dark"), (640, 1280))))
def test_axe_finds_nothing(theme: str, width: int, recording: Recording, tab: Page, tmp_path: Path) -> None:
    tab.set_viewport_size({"width": width, "height": 900})
    visit(tab, tmp_path, without_policy(page_text(recording)), theme)  # type: ignore[arg-type]  # one of the two
    open_numbers(tab, "y")
    assert findings(tab) == []
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
