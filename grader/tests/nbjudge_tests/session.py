"""What every test session does, here and in the course's tests: seeds, tiers, a language, one Chromium."""

from __future__ import annotations

import gc
import os
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from nbjudge_tests import browsers

ALL = "SEEGRAD_TEST_ALL" in os.environ  # what `make test-all` says
TABLE = "standing.toml"  # beside a project's tests


def pytest_configure(config: pytest.Config) -> None:
    """A noisy machine is no failure, and a green commit stays green: new examples are drawn where all is tested.

    Each conftest imports this. What is registered once a process is a plugin of its own: a fixture that two conftests
    import is two fixtures, and a process can't hold two Playwrights.
    """
    for plugin in (sys.modules[__name__], browsers):
        if not config.pluginmanager.is_registered(plugin):
            config.pluginmanager.register(plugin)
    settings.register_profile("house", deadline=None, derandomize=not ALL)
    settings.load_profile("house")
    for variable in ("SEEGRAD_LANG", "JPY_SESSION_NAME"):  # tests speak English unless they say otherwise
        os.environ.pop(variable, None)
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before torch is imported, and for what a test starts:
        os.environ.setdefault(variable, "1")  # small tensors, and tests side by side, whose idle threads would spin


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes minutes: what is marked so, and what a table of times leaves out.

    Nothing is left out where all is tested, or where a test is asked for by its name.
    """
    if ALL or any("::" in asked for asked in config.args):
        return
    unmarked = [item for item in items if not item.get_closest_marker("whole")]
    functions: dict[str, list[pytest.Item]] = {}
    for item in unmarked:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    sooner = {item for cases in functions.values() for item in _standing(cases)}
    config.hook.pytest_deselected(items=[item for item in items if item not in sooner])
    items[:] = [item for item in items if item in sooner]


def _standing(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Those of a test function's cases that stand for all of them, by the nearest table of times."""
    path = cases[0].path
    folder = next((parent for parent in path.parents if (parent / TABLE).exists()), None)
    if folder is None:
        return cases
    function = cases[0].nodeid.partition("[")[0].partition("::")[2]
    row = standing_rows(folder / TABLE).get(path.relative_to(folder).as_posix(), {}).get(function)
    return cases if row is None or row["cases"] >= len(cases) else some(row["cases"], cases)


@cache
def standing_rows(table: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """A table of times: of each file, and each test function in it that takes long, `cases` that `make test` runs, `of`
    how many, and the seconds that all of them took (`all_s`). `python -m tools.standing` writes it."""
    rows: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(table.read_text(encoding="utf-8"))
    return rows


@pytest.fixture(scope="module", autouse=True)
def out_of_the_collector_s_sight() -> None:
    """What lives before a file of tests: no collector, the suite's own `gc.collect()` least, has to go through it."""
    gc.collect()
    gc.freeze()


# -- of many cases alike, which stand for the others in `make test`


def one_in(every: int, cases: Iterable[Any]) -> list[Any]:
    """Parameters of a test: one case in so many is always run, the ones between only where all is tested."""
    return [case for n, case in enumerate(cases) if ALL or n % every == 0]


def first_of(cases: Iterable[Any]) -> list[Any]:
    """The same, where the first case stands for all the others."""
    return [case for n, case in enumerate(cases) if ALL or n == 0]


def some(count: int, cases: Iterable[Any], *, everything: bool = ALL) -> list[Any]:
    """The same, where so many of them stand for all, from all over: of a corpus that grows, `make test` takes no more.

    >>> some(2, "abcd", everything=False)
    ['a', 'c']
    """
    each = list(cases)
    shown = {place * len(each) // count for place in range(count)}
    return [case for n, case in enumerate(each) if everything or n in shown]
