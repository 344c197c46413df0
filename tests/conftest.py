"""What several test files share: one warm zygote, since its start takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grader.model import Limits
from grader.zygote import Zygote


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with Zygote(limits=Limits(memory_bytes=2 << 30)) as warm:
        yield warm
