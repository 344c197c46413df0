"""The corpus and a chapter on the second device, in a process of its own: nothing assumes the CPU, nothing waits.

What runs there is `tests/gpu`, as on an accelerator; SEEGRAD_TEST_DEVICE=elsewhere says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.device import elsewhere

ROOT = Path(__file__).parents[2]


def on_the_second_device(file: str, *options: str) -> None:
    """pytest on these tests, with the second device for the accelerator."""
    if elsewhere.missing():
        pytest.skip(elsewhere.missing())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/gpu/{file}", *options]
    environment = os.environ | {"SEEGRAD_TEST_DEVICE": elsewhere.NAME}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=580)
    assert run.returncode == 0, (run.stdout + run.stderr)[-6000:]


@pytest.mark.parametrize("part", ["the_same_lines", "not the_same_lines"])
def test_the_corpus(part: str) -> None:
    on_the_second_device("test_on_device.py", "-k", part)


def test_a_chapter() -> None:
    on_the_second_device("test_notebooks_on_device.py", "-k", "zh_CN-06_embedding_clone")
