"""What several test files share: the session's plugins, and which files run beside which."""

from __future__ import annotations

from typing import Any

import pytest

from nbjudge_tests.session import pytest_configure

__all__ = ["pytest_configure"]


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Side by side run whole files, so that what a file shares is made once; all that need a JupyterLab are one."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file.rpartition("/")[0] if "/lab/" in file else file

    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None
