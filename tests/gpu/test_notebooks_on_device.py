"""The course on the kernel of an accelerator: both languages' chapters strictly, the instructor's sources.

SEEGRAD_TEST_DEVICE=cpu proves the way there on any machine, with the CPU's kernel.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.course.chapters.nbval_runs import ROOT, SANITIZE, as_recorded, nbval, twice
from tests.device import elsewhere
from tools import kernels

CHAPTERS = sorted((ROOT / "notebooks" / "executed").glob("*/*.ipynb"))
SOURCES = sorted((ROOT / "source").glob("*/*.ipynb"))


@pytest.fixture(scope="module")
def kernel(device: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The name of the device's kernel, installed where only these tests look."""
    folder = tmp_path_factory.mktemp("kernels")
    name = kernels.install(folder, None if device == "cpu" else device)[-1]
    if device == elsewhere.NAME:
        registers_it(folder / "share" / "jupyter" / "kernels" / name / "kernel.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder / "share" / "jupyter"))
        yield name


def registers_it(path: Path) -> None:
    """Let a kernel begin by registering the second device."""
    kernel = json.loads(path.read_text(encoding="utf-8"))
    kernel["argv"] = ["tests.device.kernel" if each == "ipykernel_launcher" else each for each in kernel["argv"]]
    kernel["env"]["PYTHONPATH"] = str(ROOT)
    path.write_text(json.dumps(kernel), encoding="utf-8")


@pytest.fixture(scope="module")
def sanitize(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What may differ between two machines, and what a device adds to it."""
    path = tmp_path_factory.mktemp("nbval") / "sanitize.cfg"
    parts = (SANITIZE, Path(__file__).with_name("sanitize.cfg"))
    path.write_text("".join(part.read_text(encoding="utf-8") for part in parts), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_chapter_says_the_same_on_the_device(path: Path, kernel: str, sanitize: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    nbformat.write(as_recorded(twice(nbformat.read(path, as_version=4))), copy)
    done = nbval(copy, lang=path.parent.name, options=("--nbval", "--nbval-kernel-name", kernel), sanitize=sanitize)
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_instructor_s_answers_pass_on_the_device(kernel: str) -> None:
    done = nbval(*SOURCES, options=("--nbval-lax", "--nbval-kernel-name", kernel))
    assert done.returncode == 0, done.stdout[-4000:]
