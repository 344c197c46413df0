"""Fixtures of the library's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def doubles() -> Iterator[None]:
    """New tensors are float64: central differences need the digits."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
