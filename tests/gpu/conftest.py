"""The device that the corpus runs on: `cuda`, or what SEEGRAD_TEST_DEVICE names (`elsewhere` needs no hardware)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.device import elsewhere

DEVICE = elsewhere.chosen()


def missing(device: str) -> str:
    """Why there's no such device; empty where there is one."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return ""
    if kind == elsewhere.NAME:
        elsewhere.register()
        return elsewhere.missing()
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator is not None and accelerator.type == kind:
        return ""
    return (
        f"No {device} device here: nothing of seegrad was tested on one. Run `make test-gpu` on a machine that has it."
    )


@pytest.fixture(scope="session")
def device() -> str:
    """The device's name; a skip where there is none."""
    why = missing(DEVICE)
    if why:
        pytest.skip(why)
    return DEVICE


@pytest.fixture
def on_device(device: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Every tensor that is made goes to the device, and sums are made in one order only."""
    monkeypatch.setenv("SEEGRAD_RAISE_OWN_ERRORS", "1")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    repeatable = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_default_device(device)
    yield device
    torch.set_default_device(None)
    torch.use_deterministic_algorithms(repeatable)
