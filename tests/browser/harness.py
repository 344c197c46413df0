"""What browser tests share: a running JupyterLab, a page that is watched, and a learner's moves."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

ROOT = Path(__file__).parents[2]
START_TIMEOUT_S = 90
CODE_CELL = ".jp-NotebookPanel:visible .jp-CodeCell"
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


@dataclass
class Lab:
    """A running JupyterLab. `root` is its folder, a copy of the course."""

    url: str
    token: str
    root: Path

    def notebook_url(self, path: str) -> str:
        return f"{self.url}/lab/tree/{path}?token={self.token}&reset"


@dataclass
class Watched:
    """A page with what went wrong on it: console errors, and requests that would leave this machine."""

    page: Page
    console_errors: list[str] = field(default_factory=list)
    foreign_requests: list[str] = field(default_factory=list)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def chromium() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.fail("No Chromium here. `make system` installs it with apt-get; elsewhere install it by hand.")
    return found


def wait_until_up(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=2).close()  # noqa: S310  # our own server on this machine
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
        else:
            return
    pytest.fail(f"JupyterLab didn't start:\n{log.read_text(errors='replace')[-3000:]}")


def settle(settings: Path) -> None:
    """JupyterLab's own questions (news, updates) would lie over the page and ask the network."""
    folder = settings / "@jupyterlab/apputils-extension"
    folder.mkdir(parents=True)
    (folder / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')


def open_notebook(page: Page, lab: Lab, path: str) -> None:
    """Open a notebook and wait until its kernel is idle."""
    page.goto(lab.notebook_url(path))
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60_000)
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]", state="attached", timeout=60_000)


def run_all(page: Page) -> None:
    """Run → Run All Cells, from the menu, as a learner would."""

    def press() -> None:
        page.click(".lm-MenuBar-item:has-text('Run')")
        page.click(".lm-Menu-item:has-text('Run All Cells')")

    until_running(page.locator(CODE_CELL).first, press)


def run_cell(page: Page, number: int) -> Locator:
    """Put the cursor into a code cell and press Shift+Enter; returns the cell."""
    cell = page.locator(CODE_CELL).nth(number)

    def press() -> None:
        cell.locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")

    until_running(cell, press)
    return cell


def until_running(cell: Locator, press: Callable[[], None]) -> None:
    """Press until the cell's prompt moves: JupyterLab drops what is run in its first moments with a kernel."""
    prompt = cell.locator(".jp-InputPrompt").first
    before = prompt.inner_text()
    for _ in range(10):
        press()
        try:
            expect(prompt).not_to_have_text(before, timeout=3_000)
        except AssertionError:
            continue
        return
    pytest.fail("JupyterLab doesn't run the cell.")
