"""What is shipped: the wheel in an empty environment shows a picture; the sdist has what builds the front end."""

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

ROOT = Path(__file__).parents[2]
STATIC = {"embed.js", "site.css", "standalone.js", "svg.css", "widget.css", "widget.js"}
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
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def test_wheel_and_sdist_hold_the_built_front_end(built: Path) -> None:
    wheel = set(zipfile.ZipFile(only(built, "*.whl")).namelist())
    with tarfile.open(only(built, "*.tar.gz")) as archive:
        sdist = {name.partition("/")[2] for name in archive.getnames()}
    for names in (wheel, sdist):
        assert {f"seegrad/static/{name}" for name in STATIC} <= names
        assert "seegrad/locale/zh_CN/LC_MESSAGES/seegrad.mo" in names
        assert not [name for name in names if "node_modules" in name or name.endswith(".pyc")]
    assert {"frontend/package-lock.json", "frontend/build.mjs", "frontend/src/ui/player.ts"} <= sdist


@pytest.mark.slow
def test_the_wheel_in_an_empty_environment_shows_a_picture(built: Path, tmp_path: Path) -> None:
    """Torch and Jupyter are lent by the environment that runs the tests; seegrad is the wheel's alone."""
    place = tmp_path / "env"
    venv.create(place, with_pip=False, symlinks=True)
    (home,) = (place / "lib").glob("python*/site-packages")
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, only(built, "*.whl")], check=True, capture_output=True)
    lent = Path(sysconfig.get_path("purelib"))
    for each in lent.iterdir():  # all but ourselves: an editable install would be found first
        if "seegrad" not in each.name.lower() and each.suffix != ".pth" and not (home / each.name).exists():
            (home / each.name).symlink_to(each)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-c", SHOWS], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    where, prompt = done.stdout.splitlines()
    assert Path(where) == home / "seegrad" / "__init__.py"
    assert prompt == "反向传播之后，哪些张量的 `.grad` 里有梯度？请全部点出来。"
    page = [python, "-m", "seegrad", "--html", "page.html", "program.py"]
    (tmp_path / "program.py").write_text(
        "import torch\na = torch.ones(2, requires_grad=True)\n(a * 2).sum().backward()\n"
    )
    subprocess.run(page, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert "seegrad.play" in (tmp_path / "page.html").read_text(encoding="utf-8")
