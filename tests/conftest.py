"""What several test files share: the session's plugins, and which files run beside which."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from nbjudge_tests.session import pytest_configure

__all__ = ["pytest_configure"]

ONE_PROCESS = {
    "/browser/lab/": "lab",
    "/library/diagnose/": "corpus",
    "/library/words/test_languages.py": "corpus",
    "/library/words/test_messages.py": "corpus",
}
LONGEST = "/library/diagnose/"
"""What takes longest in one process comes first, so that none ends alone."""
NOTHING_SHARED = "/course/test_exercises_hold.py"  # fifty seeds of each exercise: an hour on one core


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Side by side run whole files, so that what a file shares is made once; so does what several files share: a
    JupyterLab, the corpus recorded."""
    from xdist.scheduler import LoadScopeScheduling

    quick = config.getvalue("markexpr") == "not slow"  # little else is asked then: the corpus would end alone

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if NOTHING_SHARED in file:
                return nodeid
            scope = next((shared for part, shared in ONE_PROCESS.items() if part in file), file)
            return f"{scope} {_share(nodeid)}" if quick and scope == "corpus" else scope

    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


def _share(nodeid: str) -> int:
    """Which of two processes asks of a program: the second two thirds, since the first records all for some tests."""
    program = nodeid.partition("[")[2].partition("-")[0].strip("]")
    return 1 if program and zlib.crc32(program.encode()) % 3 else 0


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, the others as they lie in `testpaths`."""
    items.sort(key=lambda item: LONGEST not in item.nodeid)
