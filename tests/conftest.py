"""What several test files share: one warm zygote, since its start takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from grader.model import Limits
from grader.zygote import Zygote

settings.register_profile("house", settings.get_profile("ci") if "CI" in os.environ else None, deadline=None)
settings.load_profile("house")  # a noisy machine is no failure


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with Zygote(limits=Limits(memory_bytes=2 << 30)) as warm:
        yield warm
