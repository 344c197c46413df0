"""A plugin of the tests: what takes minutes waits for `make test-all`."""

from __future__ import annotations

import pytest

from nbjudge_tests.session import ALL


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes minutes, unless all is tested."""
    late = [] if ALL else [item for item in items if item.get_closest_marker("whole")]
    config.hook.pytest_deselected(items=late)
    items[:] = [item for item in items if item not in late]
