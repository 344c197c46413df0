"""Every Python that is claimed, on every system that the README names: a resolver finds wheels for all of it.

Asked of an index, so in `make test-all` only; nothing is downloaded but what the packages say of themselves.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.house.test_environment import PROJECTS, ROOT, pins

PYTHONS = ("3.11.0", "3.12", "3.13", "3.14")
SYSTEMS = ("linux", "windows", "aarch64-apple-darwin")  # Apple silicon with macOS 14: torch has no older wheels
UNREACHED = re.compile(r"dns error|error sending request|Failed to fetch", re.IGNORECASE)


def resolved(python: str, system: str, *wanted: str) -> dict[str, str]:
    """What a resolver would install: name → version."""
    asked = ["--python-version", python, "--python-platform", system, "--only-binary", ":all:", "-c", "constraints.txt"]
    done = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-annotate", *asked, *wanted],
        cwd=ROOT, env=os.environ | {"MACOSX_DEPLOYMENT_TARGET": "14.0"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode and UNREACHED.search(done.stderr):
        pytest.skip("no package index can be reached from here")
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^([\w.-]+)==(\S+)", done.stdout, re.MULTILINE))


@pytest.mark.whole
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_pins_resolve(python: str, system: str) -> None:
    pytest.importorskip("uv", reason="`make test-all` installs uv")
    found = resolved(python, system, "--all-extras", "pyproject.toml")
    if system == "linux":
        found |= resolved(python, system, "--all-extras", "grader/pyproject.toml")
    wanted = pins()
    assert found["torch"].partition("+")[0] == str(wanted["torch"])
    assert {name for name in found if name in wanted and found[name].partition("+")[0] != str(wanted[name])} == set()
    assert len(found) > 100


@pytest.mark.parametrize("path", PROJECTS)
def test_the_pythons_that_are_claimed_are_those_that_are_tried(path: str) -> None:
    named = [word.removeprefix("Programming Language :: Python :: ") for word in PROJECTS[path]["classifiers"]]
    assert [word for word in named if re.fullmatch(r"3\.\d+", word)] == [
        re.sub(r"\.0$", "", python) for python in PYTHONS
    ]
    assert PROJECTS[path]["requires-python"] == f">={PYTHONS[0].removesuffix('.0')}"
