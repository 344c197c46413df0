"""What several test files share, since its start takes seconds: one headless Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from nbjudge_tests import session
from nbjudge_tests.session import pytest_collection_modifyitems
from tests.browser.harness import CHROMIUM_ARGS, chromium

__all__ = ["pytest_collection_modifyitems"]

session.begin()


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    running = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
    yield running
    running.close()
