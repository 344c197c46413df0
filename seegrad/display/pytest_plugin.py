"""`pytest --seegrad`: a test fails where one of its gradients is wrong without an error, at the line that did it.

Installed with seegrad, off by default, and then it loads nothing. `--seegrad` records every test, the marker
`@pytest.mark.gradients` the tests that have it. An error of torch's gets its explanation as a note. Notes of seegrad's,
which may be meant, fail no test: the summary tells them.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from seegrad.capture.probes.places import Code
    from seegrad.recorder import record

MARKER = "gradients"
SECTION = "Captured seegrad call"
"""As pytest calls what a test's report holds of ours; so it comes from xdist's workers, too."""


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
    here = item.config.invocation_params.dir
    if said := noted(recorder, here):
        item.add_report_section("call", "seegrad", said)
    if said := wrong(recorder, here):
        pytest.fail(said, pytrace=False)
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """In which tests notes were found, and the notes."""
    reports = [each for some in terminalreporter.stats.values() for each in some if _when(each) == "call"]
    found = [(each.nodeid, text) for each in reports for head, text in each.sections if head == SECTION]
    if not found:
        return
    from seegrad.words.languages import counted

    count = len(found)
    said = counted("{count} test with notes, which may be meant", "{count} tests with notes, which may be meant", count)
    terminalreporter.write_sep("=", f"seegrad: {said.format(count=count)}")
    for test, text in found:
        terminalreporter.write_line(f"{test}\n{text}")


def _when(report: object) -> str:
    """Which part of a test it reports; beside reports pytest keeps warnings and what was deselected."""
    return getattr(report, "when", None) or ""


def noted(recorder: record, here: Path) -> str:
    """What is told of what may be meant; empty where there is none."""
    from seegrad.display.findings import brief

    return "\n".join(brief(each, here) for each in recorder.diagnoses if each.severity == "note")


def wrong(recorder: record, here: Path) -> str:
    """What is told of the gradients that are wrong; empty where none is."""
    from seegrad.display.findings import heading

    told = (each for each in recorder.diagnoses if each.severity == "wrong")
    return "\n".join(f"{heading(each, here)}\n    {each.message()}" for each in told)


def _source(item: pytest.Item) -> Code | None:
    """The test function's own lines, for the picture."""
    function = inspect.unwrap(getattr(item, "obj", None) or _source)
    try:
        lines, first = inspect.getsourcelines(function)
        return inspect.getsourcefile(function) or "", first, "".join(lines)
    except (OSError, TypeError):  # made at run time, or no Python function
        return None
