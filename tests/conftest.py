"""What several test files share: the session's plugins, and which files run beside which."""

from __future__ import annotations

from typing import Any

import pytest

from nbjudge_tests.session import pytest_configure
from tests.halves import HALVES, half_of

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

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if NOTHING_SHARED in file:
                return nodeid
            scope = next((shared for part, shared in ONE_PROCESS.items() if part in file), file)
            return f"{scope}, {_half(nodeid)}" if scope == "corpus" else scope

    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


def _half(nodeid: str) -> str:
    """That of the half or the program in the test's brackets, else of the file, which shares what it makes."""
    file, _, case = nodeid.partition("::")
    names = case.partition("[")[2].strip("]").split("-")
    return next((name for name in names if name in HALVES), half_of(names[0] or file))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, the others as they lie in `testpaths`."""
    items.sort(key=lambda item: LONGEST not in item.nodeid)
