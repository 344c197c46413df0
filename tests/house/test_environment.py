"""The three places that say what is installed agree: pyproject.toml, constraints.txt, environment.yml."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = (re.fullmatch(r"([\w.\-]+)==(\S+)", line) for line in lines if line and not line.startswith("#"))
    return {normal(match[1]): Version(match[2]) for match in found if match}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(text) for text in (*PROJECT["dependencies"], *(text for extra in extras for text in extra))]


def pip_part() -> list[str]:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    return next(part["pip"] for part in environment["dependencies"] if isinstance(part, dict))


def test_every_requirement_is_pinned_to_a_version_that_it_allows() -> None:
    for requirement in requirements():
        pin = pins().get(normal(requirement.name))
        assert pin is not None, f"{requirement.name} has no pin in constraints.txt"
        assert requirement.specifier.contains(pin), f"{requirement} forbids the pin {pin}"


def test_torch_is_wide_in_the_project_and_fixed_in_ci() -> None:
    torch = next(requirement for requirement in requirements() if requirement.name == "torch")
    assert str(torch.specifier) == ">=2.9"
    assert pins()["torch"] == Version("2.13.0")


def test_the_conda_environment_installs_this_project_with_its_extras() -> None:
    """All but the benchmarks' peers, which nobody needs to learn, teach or test."""
    extras = [name for name in PROJECT["optional-dependencies"] if name != "bench"]
    assert pip_part() == ["-c constraints.txt", f"-e .[{','.join(extras)}]"]


def test_the_conda_environment_s_python_is_the_project_s() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python = next(part for part in environment["dependencies"] if isinstance(part, str) and part.startswith("python="))
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(python.removeprefix("python="))


def test_the_pip_part_resolves() -> None:
    """pip itself resolves the very lines of environment.yml; against what is installed, so it asks no network."""
    arguments = [word for line in pip_part() for word in line.split(" ", 1)]
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-build-isolation", "--no-index", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    would_install = [line for line in done.stdout.splitlines() if line.startswith("Would install")]
    assert all(re.fullmatch(r"Would install seegrad-[\d.]+", line) for line in would_install), would_install
