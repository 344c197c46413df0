"""The two kernels: where they are installed, which device they choose, what is said where there is no GPU."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from jupyter_client.kernelspec import KernelSpecManager
from jupyterlab_server.settings_utils import _get_overrides
from nbclient import NotebookClient

import seegrad
from tools import kernels

ROOT = Path(__file__).parents[2]
FIRST_CELL = "import seegrad\n\ndevice = seegrad.device()\nprint(device)"


def spec(prefix: Path, name: str) -> dict[str, Any]:
    text = (prefix / "share" / "jupyter" / "kernels" / name / "kernel.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def test_the_second_kernel_is_there_only_with_a_gpu(tmp_path: Path) -> None:
    assert kernels.install(tmp_path, "cuda") == ["seegrad-cpu", "seegrad-gpu"]
    folder = tmp_path / "share" / "jupyter" / "kernels" / "seegrad-cpu"
    assert folder.stat().st_mode & 0o555 == 0o555, "of an environment that a hub's students share, all read it"
    assert spec(tmp_path, "seegrad-gpu")["env"]["SEEGRAD_DEVICE"] == "cuda"
    assert kernels.install(tmp_path, None) == ["seegrad-cpu"]
    assert not (tmp_path / "share" / "jupyter" / "kernels" / "seegrad-gpu").exists()
    assert spec(tmp_path, "seegrad-cpu")["env"]["SEEGRAD_DEVICE"] == "cpu"


def test_hub_md_names_the_kernels_that_make_hub_installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a menu of kernels has them, on a machine of whose GPU torch tells, and on one where it sees none."""
    text = " ".join((ROOT / "docs" / "hub.md").read_text(encoding="utf-8").split())
    said = re.search(r"All run on (.*?); `make hub` also installs (.*?) when it is run\.", text)
    assert said
    named, installed = (re.findall(r"\*([^*]+)\*", part) for part in said.groups())
    books = [path for folder in ("notebooks", "release") for path in (ROOT / folder).rglob("*.ipynb")]
    specs = [nbformat.read(path, as_version=4).metadata.kernelspec.display_name for path in books]
    assert list(dict.fromkeys(specs)) == named
    make = ["make", "-n", "hub", f"HUB={tmp_path}"]
    recipe = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"{tmp_path}/bin/python -m tools.kernels" in recipe.splitlines()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    for sees_one in (True, False):
        monkeypatch.setattr(torch.accelerator, "is_available", lambda answer=sees_one: answer)
        assert kernels.main([]) == 0
        there = sorted((tmp_path / "share" / "jupyter" / "kernels").iterdir())
        assert [spec(tmp_path, path.name)["display_name"] for path in there] == installed[: 1 + sees_one]
    for page in (ROOT / "notebooks" / "00_start_here.py", ROOT / "docs" / "gpu.md"):
        assert {*installed} <= {*re.findall(r"\*(seegrad \(.*?\))\*", page.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_cell_gets_its_device_from_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """`meta` stands for any device that isn't the CPU."""
    name = kernels.install(tmp_path, None if device == "cpu" else device)[-1]
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    monkeypatch.delenv("SEEGRAD_DEVICE", raising=False)
    assert name in KernelSpecManager().find_kernel_specs()
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(FIRST_CELL)])
    NotebookClient(book, kernel_name=name, extra_arguments=["--log-level=ERROR"]).execute()
    assert book.cells[0].outputs[0].text == f"{device}\n"


def test_widgets_keep_their_state_in_the_notebook(tmp_path: Path) -> None:
    """Oracle: JupyterLab's own reading of its settings' folder."""
    kernels.keep_pictures(tmp_path)
    folder = tmp_path / "share" / "jupyter" / "lab" / "settings"
    overrides, error = _get_overrides(str(folder))
    assert not error
    assert overrides["@jupyter-widgets/jupyterlab-manager:plugin"] == {"saveState": True}
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    assert overrides["@jupyterlab/apputils-extension:notification"] == quiet


def test_every_chapter_asks_the_kernel_for_its_device() -> None:
    for path in sorted((ROOT / "notebooks").glob("*.py")):
        assert path.read_text(encoding="utf-8").count("device = seegrad.device()") == 1, path


@pytest.mark.parametrize("wanted", ["cuda:99", "xla", "banana"])
def test_a_device_that_is_not_there_is_told_and_the_cpu_is_used(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    monkeypatch.setenv("SEEGRAD_DEVICE", wanted)
    with pytest.warns(UserWarning, match=f"SEEGRAD_DEVICE says {wanted}, but torch finds no such device"):
        assert seegrad.device() == "cpu"


def test_where_no_gpu_is_at_hand_it_is_said_in_one_sentence(tmp_path: Path) -> None:
    """As `make test-gpu` begins. torch sees no CUDA device with this variable, on any machine."""
    program = f"import sys; sys.prefix = {str(tmp_path)!r}; from tools.kernels import main; sys.exit(main(['--gpu']))"
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [kernels.NO_GPU]
