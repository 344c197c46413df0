"""What is shipped, project by project: the library's wheel in an empty environment shows a picture, the grader's sees
the walls; each holds its own package only, and the library's sdist what builds the front end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tools.words import catalogue

ROOT = Path(__file__).parents[2]
PLUGIN = "seegrad/display/pytest_plugin.py"
STATIC = {
    *("embed.js", "heat.css", "site.css", "standalone.js", "svg.css"),
    *("switches.css", "switches.js", "widget.css", "widget.js"),
}
SHOWS = """
import torch
import seegrad

a = torch.tensor([1.0, 2.0], requires_grad=True)
with seegrad.record() as rec:
    b = a * 2
    b.sum().backward()
picture = seegrad.show(rec, ask="keeps", lang="zh_CN")
data, _ = picture._repr_mimebundle_()
assert "data:image/svg+xml" in data["text/html"], data
assert "application/vnd.jupyter.widget-view+json" in data
print(seegrad.__file__)
print(picture.scene["question"]["prompt"])
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def built_grader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT / "grader", tmp_path_factory.mktemp("grader"))


def build(project: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    return folder


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def in_wheel(folder: Path) -> set[str]:
    return set(zipfile.ZipFile(only(folder, "*.whl")).namelist())


def in_sdist(folder: Path) -> set[str]:
    with tarfile.open(only(folder, "*.tar.gz")) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def packages(names: set[str]) -> set[str]:
    """The top-level folders of a wheel, without what pip keeps about it."""
    return {name.partition("/")[0] for name in names if ".dist-info" not in name}


def test_wheel_and_sdist_hold_the_built_front_end(built: Path) -> None:
    for names in (in_wheel(built), in_sdist(built)):
        assert {f"seegrad/static/{name}" for name in STATIC} <= names
        assert {"seegrad/locale/zh_CN/LC_MESSAGES/seegrad.mo", "seegrad/derivatives.json", "seegrad/py.typed"} <= names
        assert not [name for name in names if "node_modules" in name or name.endswith(".pyc")]
    assert {"frontend/package-lock.json", "frontend/build.mjs", "frontend/src/ui/player.ts"} <= in_sdist(built)


def test_each_wheel_holds_its_own_package_only_with_types_licence_and_readme(built: Path, built_grader: Path) -> None:
    for folder, package in ((built, "seegrad"), (built_grader, "nbjudge")):
        names = in_wheel(folder)
        assert packages(names) == {package}
        assert f"{package}/py.typed" in names
        assert {name for name in names if "test" in name.lower()} == ({PLUGIN} if package == "seegrad" else set())
        (licence,) = [name for name in names if name.endswith("dist-info/licenses/LICENSE")]
        wheel = zipfile.ZipFile(only(folder, "*.whl"))
        assert wheel.read(licence).decode().startswith("MIT License")
        metadata = wheel.read(next(name for name in names if name.endswith("dist-info/METADATA"))).decode()
        assert f"\n# {package}\n" in metadata  # the README's first line
        assert {"README.md", "LICENSE", "pyproject.toml"} <= in_sdist(folder)
    assert "SECURITY.md" in in_sdist(built_grader)


def test_the_wheel_speaks_chinese(built: Path) -> None:
    with zipfile.ZipFile(only(built, "*.whl")) as files:
        data = files.read("seegrad/locale/zh_CN/LC_MESSAGES/seegrad.mo")
    assert data == catalogue.po_file("zh_CN").with_suffix(".mo").read_bytes()


def an_environment(place: Path, built: Path) -> Path:
    """A new environment with a wheel in it; its Python. All else is lent by the environment that runs the tests."""
    venv.create(place, with_pip=False, symlinks=True)
    (home,) = (place / "lib").glob("python*/site-packages")
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, only(built, "*.whl")], check=True, capture_output=True)
    for each in Path(sysconfig.get_path("purelib")).iterdir():  # all but ourselves: an editable install comes first
        own = any(name in each.name.lower() for name in ("seegrad", "nbjudge"))
        if not own and each.suffix != ".pth" and not (home / each.name).exists():
            (home / each.name).symlink_to(each)
    return python


def without_python_variables() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


@pytest.mark.whole  # test_release installs both wheels
@pytest.mark.slow
def test_the_wheel_in_an_empty_environment_shows_a_picture(built: Path, tmp_path: Path) -> None:
    """Torch and Jupyter are lent by the environment that runs the tests; seegrad is the wheel's alone."""
    python, environment = an_environment(tmp_path / "env", built), without_python_variables()
    done = subprocess.run(
        [python, "-c", SHOWS], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    where, prompt = done.stdout.splitlines()
    assert Path(where).is_relative_to(tmp_path / "env")
    assert prompt == "反向传播之后，哪些张量的 `.grad` 里有梯度？请全部点出来。"
    page = [python, "-m", "seegrad", "--html", "page.html", "program.py"]
    (tmp_path / "program.py").write_text(
        "import torch\na = torch.ones(2, requires_grad=True)\n(a * 2).sum().backward()\n"
    )
    subprocess.run(page, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert "seegrad.alone" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_grader_s_wheel_in_an_empty_environment_sees_the_walls(built_grader: Path, tmp_path: Path) -> None:
    """By its command, where no seegrad is installed."""
    python = an_environment(tmp_path / "env", built_grader)
    doctor = [python.with_name("nbjudge"), "doctor"]
    done = subprocess.run(
        doctor, cwd=tmp_path, env=without_python_variables(), capture_output=True, text=True, check=False
    )
    assert "seccomp" in done.stdout, done.stderr
    absent = [python, "-c", "import importlib.util as u; print(u.find_spec('seegrad'), u.find_spec('nbjudge_tests'))"]
    told = subprocess.run(absent, cwd=tmp_path, env=without_python_variables(), capture_output=True, text=True)
    assert told.stdout == "None None\n"
