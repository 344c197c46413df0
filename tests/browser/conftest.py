"""A real JupyterLab on a copy of the course, and a headless Chromium that talks to this machine alone."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, Request, sync_playwright

from tests.browser.harness import CHROMIUM_ARGS, ROOT, Lab, Watched, chromium, free_port, settle, wait_until_up


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
