"""What several test files share, since its start takes seconds: one warm zygote, one PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import nbgrader.api
import pytest

from nbjudge.model import Limits
from nbjudge.process.zygote import Zygote
from nbjudge_tests import databases
from nbjudge_tests.classroom import commands
from nbjudge_tests.session import pytest_configure

__all__ = ["pytest_configure"]
nbgrader.api.get_alembic_version = commands.version_of_tables


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


@pytest.fixture(scope="session", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.whole)])
def database(request: pytest.FixtureRequest) -> databases.Database:
    """Every test that asks for it runs on both, where all is tested."""
    if request.param == "sqlite":
        return databases.Sqlite()
    server: databases.Postgresql = request.getfixturevalue("postgresql")
    return server
