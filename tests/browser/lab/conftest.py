"""A real JupyterLab on a copy of the course, and a headless Chromium that talks to this machine alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.lab.harness import ROOT, Lab, Watched, running_lab, watching


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The chapters, as a learner has them."""
    root = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks/en", root / "notebooks/en")
    with running_lab(root, tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture
def watched(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Watched]:
    with watching(browser) as seen:
        yield seen
        if shots := os.environ.get("SEEGRAD_SHOTS"):  # to look at what the test saw
            seen.page.screenshot(path=Path(shots) / f"{request.node.name}.png")
