"""A plugin of the tests: one headless Chromium a process, for every test that looks at a page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

# The first draws no window of a browser's around a page: a new one costs it a quarter of the others' CPU seconds.
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Chromium looks up its maker's hosts at every start unless it is told not to.
CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        pytest.fail("No Chromium here. `make system` installs it with apt-get; elsewhere install it by hand.")
    return found


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    from playwright.sync_api import sync_playwright  # here: a machine with a GPU, say, looks at no page

    with sync_playwright() as running:
        yield running


def visit(tab: Page, folder: Path, text: str, theme: str = "light") -> None:
    """Open a page of this text, kept in a folder."""
    (folder / "page.html").write_text(text, encoding="utf-8")
    tab.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    tab.goto((folder / "page.html").as_uri())


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """An empty one, of its own."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    running = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
    yield running
    running.close()
