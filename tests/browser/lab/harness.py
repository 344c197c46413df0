"""What browser tests share: a running JupyterLab, a page that is watched, and a learner's moves."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Request

from tools.kernels import SETTINGS

ROOT = Path(__file__).parents[3]
START_TIMEOUT_S = 90
# JupyterLab drops what is run while it is still connecting, though its indicator says "idle".
KERNEL_IS_READY = """() => {
    const context = window.jupyterapp?.shell.currentWidget?.sessionContext;
    const kernel = context?.session?.kernel;
    return context?.isReady && kernel?.connectionStatus === "connected" && kernel.status === "idle";
}"""
CODE_CELL = ".jp-NotebookPanel:visible .jp-CodeCell"


@dataclass
class Lab:
    """A running JupyterLab. `root` is its folder, a copy of the course; `home` its user's."""

    url: str
    token: str
    root: Path
    home: Path

    def notebook_url(self, path: str) -> str:
        return f"{self.url}/lab/tree/{path}?token={self.token}&reset"


@dataclass
class Watched:
    """A page with what went wrong on it: console errors, and requests that would leave this machine."""

    page: Page
    console_errors: list[str] = field(default_factory=list)
    foreign_requests: list[str] = field(default_factory=list)


@contextmanager
def watching(browser: Browser) -> Iterator[Watched]:
    """A window of its own, and what goes wrong in it."""
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
    context.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
    """As `make lab` sets it: no questions of JupyterLab's own; and every cell in the page, also below."""
    for plugin, values in {**SETTINGS, "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"}}.items():
        name, part = plugin.split(":")
        path = settings / name / f"{part}.jupyterlab-settings"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(values))


@contextmanager
def running_lab(root: Path, home: Path) -> Iterator[Lab]:
    """JupyterLab on a folder, with a home and settings of its own."""
    port, token, log = free_port(), secrets.token_hex(8), home / "lab.log"
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={port}", "--allow-root"]
    command += ["--expose-app-in-browser", "--ServerApp.port_retries=0"]
    command += [f"--ServerApp.root_dir={root}", f"--IdentityProvider.token={token}"]
    settle(home / "settings")
    environment = {
        **os.environ,
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",  # nbgrader looks for alembic there
    }
    with log.open("wb") as sink:
        process = subprocess.Popen(command, cwd=root, env=environment, stdout=sink, stderr=subprocess.STDOUT)
    try:
        wait_until_up(process, f"http://127.0.0.1:{port}/api", log)
        yield Lab(f"http://127.0.0.1:{port}", token, root, home)
    finally:
        process.terminate()
        process.wait(20)


def open_notebook(page: Page, lab: Lab, path: str) -> None:
    """Open a notebook and wait until its kernel is idle."""
    page.goto(lab.notebook_url(path))
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60_000)
    page.wait_for_function(KERNEL_IS_READY, timeout=60_000)


def run_all(page: Page) -> None:
    """Run → Run All Cells, from the menu, as a learner would."""
    page.click(".lm-MenuBar-item:has-text('Run')")
    page.click(".lm-Menu-item:has-text('Run All Cells')")


def run_cell(page: Page, number: int) -> Locator:
    """Put the cursor into a code cell and press Shift+Enter; returns the cell."""
    cell = page.locator(CODE_CELL).nth(number)
    cell.locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    return cell


def run_until(page: Page, text: str) -> Locator:
    """Shift+Enter from the first code cell to the one that holds `text`, as who reads would; returns that cell."""
    texts = page.locator(CODE_CELL).all_inner_texts()
    last = next(number for number, each in enumerate(texts) if text in each)
    for number in range(last):
        run_cell(page, number)
    return run_cell(page, last)
