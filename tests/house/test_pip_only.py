"""The ways in without make and node, followed as they are written: a fresh venv, pip, a chapter.

Offline as far as that goes: pip sees the packages that are installed here, all but our own, and asks no index. Nothing
is compiled on the way, and no front end is built: PATH holds the venv alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tools.course.kit import make_kit

ROOT = Path(__file__).parents[2]
OWN = ("seegrad", "_seegrad", "nbjudge", "_nbjudge", "_editable_impl_")
PROGRAM = """
import nbformat, os, sys
from nbclient import NotebookClient
import seegrad
assert not seegrad.__file__.startswith(sys.argv[2]), seegrad.__file__
book = nbformat.read(sys.argv[1], as_version=4)
drawn = next(number for number, cell in enumerate(book.cells) if cell.source.startswith("%%see"))
book.cells = book.cells[: drawn + 1]
NotebookClient(book, kernel_name="python3", extra_arguments=["--log-level=ERROR"]).execute()
print("data:image/svg" in "".join(output["data"]["text/html"] for output in book.cells[-1].outputs if "data" in output))
"""


def commands(document: Path) -> list[str]:
    """The block that makes a venv, without what is for Windows, without remarks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (block,) = [text for text in blocks if text.startswith("python -m venv") and "Windows" in text]
    lines = [line for line in block.splitlines() if "# Windows" not in line]
    return [re.sub(r"\s+#.*", "", line) for line in lines]


def lend_packages(venv: Path) -> None:
    """Let the venv see what is installed here, all but our own."""
    lent = venv / "lent"
    lent.mkdir()
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not path.name.startswith(OWN):
            (lent / path.name).symlink_to(path)
    (site,) = venv.glob("lib/python*/site-packages")
    for path in site.glob("setuptools*"):
        shutil.rmtree(path)  # the one that venv brings is too old for torch; pip would fetch another
    (site / "lent.pth").write_text(f"{lent}\n")


def test_both_languages_say_the_same_commands() -> None:
    assert commands(ROOT / "README.md")[:-1] == commands(ROOT / "README.zh_CN.md")[:-1]


@pytest.mark.whole
@pytest.mark.parametrize("way", ["kit", "README.md", "README.zh_CN.md"])
def test_the_way_in_by_pip_is_followed(tmp_path: Path, way: str) -> None:
    place = make_kit(ROOT, tmp_path / "kit") if way == "kit" else ROOT
    make, activate, *install, lab = commands(place / ("README.md" if way == "kit" else way))
    venv = tmp_path / ".venv"
    assert make == "python -m venv .venv"
    assert activate == "source .venv/bin/activate"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    lend_packages(venv)
    environment = {
        "PATH": str(venv / "bin"),
        "HOME": str(tmp_path),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's own spelling of `no isolation`
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        **{name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ},
    }
    for command in install:
        told = run([str(venv / "bin" / "python"), *command.replace('"', "").split()[1:]], place, environment)
        assert "pip install" not in command or "Successfully installed seegrad" in told
    program, notebook = lab.removeprefix("jupyter lab "), place / lab.split()[-1]
    assert program.endswith("00_start_here.ipynb")
    assert "4." in run([str(venv / "bin" / "python"), "-m", "jupyterlab", "--version"], tmp_path, environment)
    environment["JUPYTER_PATH"] = str(Path(sys.prefix) / "share" / "jupyter")
    told = run([str(venv / "bin" / "python"), "-c", PROGRAM, str(notebook), str(ROOT)], tmp_path, environment)
    assert told.strip() == "True"


def run(command: list[str], place: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_front_end_that_a_learner_gets_is_in_the_repository() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "seegrad/static"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {"seegrad/static/widget.js", "seegrad/static/widget.css"} <= set(tracked.stdout.split())
