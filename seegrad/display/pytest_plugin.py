"""`pytest --seegrad`: a test fails where one of its gradients is wrong without an error, at the line that did it.

Installed with seegrad, off by default, and then it loads nothing. `--seegrad` records every test, the marker
`@pytest.mark.gradients` the tests that have it. An error of torch's gets its explanation as a note.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from seegrad.capture.probes.places import Code
    from seegrad.recorder import record

MARKER = "gradients"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--seegrad`."""
    said = "fail each test that gets a wrong gradient without an error, at the line that did it"
    parser.getgroup("seegrad").addoption("--seegrad", action="store_true", help=said)


def pytest_configure(config: pytest.Config) -> None:
    """The marker is known, so `--strict-markers` lets it pass."""
    config.addinivalue_line("markers", f"{MARKER}: fails where a gradient is wrong without an error (seegrad)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """The test itself, without its fixtures' work."""
    if not item.config.getoption("--seegrad") and item.get_closest_marker(MARKER) is None:
        return (yield)
    from seegrad.recorder import record

    def explain(error: BaseException | None) -> None:
        if error is not None:
            recorder.explain(error)

    with record(code=_source(item), listener=explain) as recorder:
        result = yield
    if said := wrong(recorder, item.config):
        pytest.fail(said, pytrace=False)
    return result


def wrong(recorder: record, config: pytest.Config) -> str:
    """What is told of the gradients that are wrong; empty where none is."""
    from seegrad.display.findings import heading

    return "\n".join(
        f"{heading(each, config.invocation_params.dir)}\n    {each.message()}"
        for each in recorder.diagnoses
        if each.severity == "wrong"
    )


def _source(item: pytest.Item) -> Code | None:
    """The test function's own lines, for the picture."""
    function = inspect.unwrap(getattr(item, "obj", None) or _source)
    try:
        lines, first = inspect.getsourcelines(function)
        return inspect.getsourcefile(function) or "", first, "".join(lines)
    except (OSError, TypeError):  # made at run time, or no Python function
        return None
