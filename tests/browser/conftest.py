"""A real JupyterLab on a copy of the course, and a headless Chromium that talks to this machine alone."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Playwright, Request, sync_playwright

ROOT = Path(__file__).parents[2]
START_TIMEOUT_S = 90
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


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks/en", root / "notebooks/en")
    home = tmp_path_factory.mktemp("home")
    port, token, log = free_port(), secrets.token_hex(8), home / "lab.log"
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        f"--port={port}",
        "--allow-root",
        "--expose-app-in-browser",
    ]
    command += [f"--ServerApp.root_dir={root}", f"--IdentityProvider.token={token}", "--ServerApp.port_retries=0"]
    environment = {**os.environ, "HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / "config"), "PYTHONWARNINGS": ""}
    environment["JUPYTERLAB_SETTINGS_DIR"] = str(home / "settings")
    settle(home / "settings")
    with log.open("wb") as sink:
        process = subprocess.Popen(command, cwd=root, env=environment, stdout=sink, stderr=subprocess.STDOUT)
    try:
        wait_until_up(process, f"http://127.0.0.1:{port}/api", log)
        yield Lab(f"http://127.0.0.1:{port}", token, root)
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    running = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
    yield running
    running.close()


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(
        viewport={"width": 1440, "height": 1000}, permissions=["clipboard-read", "clipboard-write"]
    )
    seen = Watched(context.new_page())

    def note(request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "file:", "about:")):
            seen.foreign_requests.append(request.url)

    seen.page.on("request", note)
    seen.page.on(
        "console", lambda message: seen.console_errors.append(message.text) if message.type == "error" else None
    )
    seen.page.on("pageerror", lambda error: seen.console_errors.append(str(error)))
    yield seen
    context.close()


def open_notebook(page: Page, lab: Lab, path: str) -> None:
    """Open a notebook and wait until its kernel is idle."""
    page.goto(lab.notebook_url(path))
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60_000)
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]", state="attached", timeout=60_000)


def run_all(page: Page) -> None:
    """Run → Run All Cells, from the menu, as a learner would."""
    page.click(".lm-MenuBar-item:has-text('Run')")
    page.click(".lm-Menu-item:has-text('Run All Cells')")
