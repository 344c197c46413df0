"""What several test files share, since its start takes seconds: one warm zygote, one headless Chromium."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, Playwright, sync_playwright

from grader.model import Limits
from grader.zygote import Zygote
from tests import databases
from tests.browser.harness import CHROMIUM_ARGS, chromium

ALL = "SEEGRAD_TEST_ALL" in os.environ  # what `make test-all` says

# A noisy machine is no failure, and a commit that was green stays so: new examples are drawn where all is tested.
settings.register_profile("house", deadline=None, derandomize=not ALL)
settings.load_profile("house")

for variable in ("SEEGRAD_LANG", "JPY_SESSION_NAME"):  # tests speak English unless they say otherwise
    os.environ.pop(variable, None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes minutes, unless all is tested."""
    late = [] if ALL else [item for item in items if item.get_closest_marker("whole")]
    config.hook.pytest_deselected(items=late)
    items[:] = [item for item in items if item not in late]


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with Zygote(limits=Limits(memory_bytes=2 << 30)) as warm:
        yield warm


@pytest.fixture(scope="session")
def postgresql() -> Iterator[databases.Postgresql]:
    folder = databases.programs()
    if folder is None:
        pytest.skip("PostgreSQL's server isn't installed (make system)")
    with databases.server(folder) as running:
        yield running


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> databases.Database:
    """Every test that asks for it runs on both."""
    if request.param == "sqlite":
        return databases.Sqlite()
    server: databases.Postgresql = request.getfixturevalue("postgresql")
    return server


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    running = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
    yield running
    running.close()
