"""A real JupyterLab on a copy of the course, and a headless Chromium that talks to this machine alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Request

from tests.browser.lab.harness import ROOT, Lab, Watched, running_lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The chapters, as a learner has them."""
    root = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks/en", root / "notebooks/en")
    with running_lab(root, tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture
def watched(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Watched]:
    context = browser.new_context(
        viewport={"width": 1440, "height": 1000}, permissions=["clipboard-read", "clipboard-write"]
    )
    seen = Watched(context.new_page())

    def note(asked: Request) -> None:
        if not asked.url.startswith(("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "file:", "about:")):
            seen.foreign_requests.append(asked.url)

    seen.page.on("request", note)
    seen.page.on(
        "console", lambda message: seen.console_errors.append(message.text) if message.type == "error" else None
    )
    seen.page.on("pageerror", lambda error: seen.console_errors.append(str(error)))
    yield seen
    if shots := os.environ.get("SEEGRAD_SHOTS"):  # to look at what the test saw
        seen.page.screenshot(path=Path(shots) / f"{request.node.name}.png")
    context.close()
