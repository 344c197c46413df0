"""What a class receives: chapters, releases, the library and its environment; nothing that answers an exercise.

::

    notebooks/LANG, release/LANG, seegrad ─▶ DIR/notebooks, DIR/release, DIR/seegrad-VERSION.whl, requirements, READMEs

Everything is named that goes in, so nothing comes along by chance. The library is a wheel: pip alone installs it, on
any system, and builds nothing.
"""

from __future__ import annotations

import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.course.masters import BookError
from tools.words.entries import EVERY_LANGUAGE

START = "00_start_here"
VALIDATE = "nbgrader  # JupyterLab's button Validate, which the assignments speak of"

README = """# The course

You need Python 3.11 or later, and nothing else: no make, no node, no compiler.

```
python -m venv .venv
.venv\\Scripts\\activate              # Windows
source .venv/bin/activate           # macOS, Linux
python -m pip install -r requirements.txt
jupyter lab notebooks/en/{start}.ipynb
```

On Linux without an NVIDIA GPU, first: `python -m pip install torch --index-url https://download.pytorch.org/whl/cpu`
(PyPI's torch brings gigabytes of CUDA). With conda instead: `conda env create -f environment.yml`.

`notebooks/` are the chapters, `release/` the assignments: write your answers where it says `YOUR CODE HERE`, run the
cell below, and hand the notebook in under the name that it has. **Validate**, above a notebook, runs the visible tests;
hidden ones run when your work is graded, so "Success" isn't yet full marks.

To run the chapters on a GPU, set `SEEGRAD_DEVICE=cuda` before you start JupyterLab.

[中文说明](README.zh_CN.md)
"""
README_ZH = """# 课程

只需要 Python 3.11 或更高版本，不需要 make、node 或编译器。

```
python -m venv .venv
.venv\\Scripts\\activate              # Windows
source .venv/bin/activate           # macOS, Linux
python -m pip install -r requirements.txt
jupyter lab notebooks/zh_CN/{start}.ipynb
```

在没有 NVIDIA GPU 的 Linux 上，请先运行 `python -m pip install torch --index-url https://download.pytorch.org/whl/cpu`
（PyPI 上的 torch 会带来几 GB 的 CUDA 库）。
也可以用 conda：`conda env create -f environment.yml`。

`notebooks/` 里是各章，`release/` 里是作业：在写着 `YOUR CODE HERE` 的地方作答，运行下面的单元格，然后提交笔记本，
文件名不要改。笔记本上方的 **Validate** 只运行可见的测试；隐藏的测试在评分时才运行，所以 “Success” 还不等于满分。

想在 GPU 上运行，请在启动 JupyterLab 之前设置 `SEEGRAD_DEVICE=cuda`。

[English](README.md)
"""
ENVIRONMENT = """name: seegrad
channels:
  - conda-forge
dependencies:
  - python=3.11
  - pip
  - pip:
      - -r requirements.txt
"""


def make_kit(root: Path, folder: Path) -> Path:
    """Write the kit of the course at `root` into a new or empty folder; returns it.

    Raises BookError where the folder holds something, or nothing has been released yet.
    """
    if folder.exists() and any(folder.iterdir()):
        raise BookError(f"{folder} isn't empty. Name a new folder, or empty it.")
    files = dict(_notebooks(root))
    if not any(path.parts[0] == "release" for path in files):
        raise BookError(f"{root}/release has no assignment. Run: python -m tools.book build")
    for relative, source in files.items():
        (folder / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / relative)
    wheel = build_wheel(root, folder)
    for name, text in _texts(root, wheel).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def _notebooks(root: Path) -> Iterator[tuple[Path, Path]]:
    """(place in the kit, file): the chapters, and all that nbgrader released."""
    for lang in EVERY_LANGUAGE:
        found = [*(root / "notebooks" / lang).glob("*.ipynb"), *(root / "release" / lang).rglob("*")]
        for path in sorted(path for path in found if path.is_file()):
            relative = path.relative_to(root)
            if not any(part.startswith(".") for part in relative.parts):
                yield relative, path


def build_wheel(root: Path, folder: Path) -> Path:
    """The library as a wheel in `folder`, from its own copy: what else lies in the course stays out."""
    try:
        from hatchling.builders.wheel import WheelBuilder
    except ImportError as error:
        raise BookError("The library is packed by hatchling. Run: pip install -e '.[test]'") from error
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tempfile.TemporaryDirectory(prefix="kit-") as made:
        copy = Path(made)
        shutil.copytree(root / "seegrad", copy / "seegrad", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", project["readme"], *project["license-files"]):
            shutil.copyfile(root / name, copy / name)
        (wheel,) = WheelBuilder(str(copy)).build(directory=str(folder), versions=["standard"])
    return Path(wheel)


def _texts(root: Path, wheel: Path) -> dict[str, str]:
    """The files that are written for the kit."""
    return {
        "README.md": README.format(start=_first(root, "en")),
        "README.zh_CN.md": README_ZH.format(start=_first(root, "zh_CN")),
        "environment.yml": ENVIRONMENT,
        "requirements.txt": f"-c constraints.txt\n./{wheel.name}[lab]\n{VALIDATE}\n",
        "constraints.txt": (root / "constraints.txt").read_text(encoding="utf-8"),
    }


def _first(root: Path, lang: str) -> str:
    """The chapter to begin with."""
    names = sorted(path.stem for path in (root / "notebooks" / lang).glob("*.ipynb"))
    return START if START in names or not names else names[0]
