"""The places that say what is installed agree: the two projects, constraints.txt, environment.yml, the Makefile."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECTS: dict[str, dict[str, Any]] = {  # by the path that pip is given
    path: tomllib.loads((ROOT / path / "pyproject.toml").read_text())["project"] for path in (".", "./grader")
}
NOT_FOR_A_CLASS = {"bench", "launchers", "release", "torch"}  # peers, a cluster's, tools of ours; what `lab` brings


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = (re.fullmatch(r"([\w.\-]+)==(\S+)", line) for line in lines if line and not line.startswith("#"))
    return {normal(match[1]): Version(match[2]) for match in found if match}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(project: dict[str, Any]) -> list[Requirement]:
    extras = project["optional-dependencies"].values()
    return [Requirement(text) for text in (*project["dependencies"], *(text for extra in extras for text in extra))]


def installed() -> list[str]:
    """The two projects with their extras, as pip is told to install them."""
    extras = {path: [name for name in project["optional-dependencies"] if name not in NOT_FOR_A_CLASS]
              for path, project in PROJECTS.items()}  # fmt: skip
    return [f"{path}[{','.join(names)}]" for path, names in extras.items()]


def pip_part() -> list[str]:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    return next(part["pip"] for part in environment["dependencies"] if isinstance(part, dict))


@pytest.mark.parametrize("path", PROJECTS)
def test_every_requirement_is_pinned_to_a_version_that_it_allows(path: str) -> None:
    for requirement in requirements(PROJECTS[path]):
        pin = pins().get(normal(requirement.name))
        assert pin is not None, f"{requirement.name} has no pin in constraints.txt"
        assert requirement.specifier.contains(pin), f"{requirement} forbids the pin {pin}"


@pytest.mark.parametrize("path", PROJECTS)
def test_torch_is_wide_in_the_projects_and_fixed_in_ci(path: str) -> None:
    torch = next(requirement for requirement in requirements(PROJECTS[path]) if requirement.name == "torch")
    assert str(torch.specifier) == ">=2.9"
    assert pins()["torch"] == Version("2.13.0")


@pytest.mark.parametrize("python", ["3.11.0", "3.11.2", "3.12.0", "3.13.0", "3.14.0"])
def test_the_pins_hold_on_every_python_that_is_claimed(python: str) -> None:
    """Debian 12 has 3.11.2; what is pinned and installed here says itself which Pythons it takes."""
    found = {normal(dist.metadata["Name"]): dist.metadata.get("Requires-Python") for dist in distributions()}
    wanted = {name: found[name] for name in pins() if found.get(name)}
    assert len(wanted) > 100
    assert [name for name, asked in wanted.items() if not SpecifierSet(asked).contains(python)] == []


def test_neither_project_asks_an_index_for_the_other() -> None:
    """They are installed by their paths: the index may know other packages of these names."""
    names = {normal(requirement.name) for project in PROJECTS.values() for requirement in requirements(project)}
    assert not names & {project["name"] for project in PROJECTS.values()}
    assert not pins().keys() & {project["name"] for project in PROJECTS.values()}


def test_the_conda_environment_and_make_install_both_projects_with_their_extras() -> None:
    assert pip_part() == ["-c constraints.txt", *(f"-e {text}" for text in installed())]
    makefile = (ROOT / "Makefile").read_text().replace("'", "")
    assert f"-c constraints.txt -e {' -e '.join(installed())}\n" in makefile


def test_an_environment_that_the_shell_has_activated_isn_t_taken_for_make_s_own(monkeypatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/somewhere/else")
    monkeypatch.delenv("MAKEFLAGS", raising=False)  # of a make that runs the tests, which would have its folder printed
    command = ["make", "-s", '--eval=shown: ; @echo "[$$VIRTUAL_ENV]"', "shown"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("made", [".venv/.installed", "frontend/node_modules/.installed"])
def test_what_takes_long_on_a_new_machine_says_so_first(made: str) -> None:
    command = ["make", "-n", "-W", "frontend/package-lock.json", "-W", "pyproject.toml", made]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    told, begins = re.search(r"echo \"(installing|fetching) .*", said), re.search(r"npm ci|pip install", said)
    assert told is not None
    assert begins is not None
    assert told.start() < begins.start()
    assert not re.search(r"second|half a minute", told[0]), "nobody knows a machine's time"


def test_the_conda_environment_s_python_is_the_project_s() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python = next(part for part in environment["dependencies"] if isinstance(part, str) and part.startswith("python="))
    for project in PROJECTS.values():
        assert Requirement(f"python{project['requires-python']}").specifier.contains(python.removeprefix("python="))


@pytest.mark.whole  # test_every_python asks the resolver for each of them
def test_the_pip_part_resolves() -> None:
    """pip itself resolves the very lines of environment.yml; against what is installed, so it asks no network."""
    arguments = [word for line in pip_part() for word in line.split(" ", 1)]
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-build-isolation", "--no-index", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    would_install = [line for line in done.stdout.splitlines() if line.startswith("Would install")]
    assert all(re.fullmatch(r"Would install( (nbjudge|seegrad)-[\d.]+)+", line) for line in would_install), (
        would_install
    )
