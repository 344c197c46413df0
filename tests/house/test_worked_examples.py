"""CONTRIBUTING's worked examples, followed to the letter in a copy: as few files as it says, and what is made works.

A block `file=PATH` is a new file, `add=PATH` is put at a file's end, `diff` is applied; `run` runs, and the `text`
after it is what it prints.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from nbjudge_tests.session import ALL, first_of

ROOT = Path(__file__).parents[2]
COPIED = (
    "seegrad",
    "tests/house",
    "grader/nbjudge",
    "tools",
    "locale",
    "frontend/src",
    "frontend/build.mjs",
    "frontend/tsconfig.json",
)
MASTERS = ("README.md", "README.zh_CN.md", "pyproject.toml", "frontend/package.json")
FEW = {  # at most so many source files of each language; a catalogue, a translation of any of them, is beside the point
    "A new kind of diagnosis": {".py": 1},
    "A new kind of question": {".py": 2},
    "A new kind of value": {".py": 1},
}


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after its language, and its text."""

    says: str
    text: str

    @property
    def path(self) -> str:
        found = re.search(r"(?:file|add)=(\S+)", self.says) or re.search(r"^\+\+\+ b/(\S+)", self.text, re.MULTILINE)
        return found[1] if found else ""


HOUSE = "import or circle or floors or private or calls_itself or folder_holds or size or names or lint or catalogue"
"""Of the house's rules, those that speak of what a change adds; the rest asks for folders that aren't copied."""
RULES = Block(
    "sh",
    f"""
    mkdir -p benchmarks grader/tests
    ruff check seegrad grader/nbjudge && ruff format --check seegrad grader/nbjudge
    python -m tools.words.catalogue --check
    python -m pytest -q -p no:cacheprovider -p no:xdist --noconftest tests/house/test_architecture.py -k '{HOUSE}'
    """,
)
"""What a change has to obey before it may be committed, an example's too."""


def examples() -> dict[str, list[Block]]:
    """The examples by their headings."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    sections = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    return {
        section.splitlines()[0]: [
            Block(says, body) for says, body in re.findall(r"^```(.*)\n((?:.*\n)*?)```$", section, flags=re.MULTILINE)
        ]
        for section in sections
    }


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources alone, where an example may write."""
    for name in COPIED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    for name in MASTERS:
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in ("notebooks", "source"):
        (tmp_path / folder).mkdir()
        for master in (ROOT / folder).glob("*.py"):
            shutil.copy(master, tmp_path / folder)
    (tmp_path / "frontend" / "node_modules").symlink_to((ROOT / "frontend" / "node_modules").resolve())
    return tmp_path


def follow(block: Block, copy: Path) -> None:
    """Write, add or apply what a block says."""
    if "file=" in block.says:
        assert not (copy / block.path).exists(), f"{block.path} isn't new any more"
        (copy / block.path).write_text(block.text, encoding="utf-8")
    elif "add=" in block.says:
        with (copy / block.path).open("a", encoding="utf-8") as file:
            file.write(f"\n{block.text}")
    elif block.says == "diff":
        subprocess.run(["git", "apply", "--recount"], input=block.text, text=True, cwd=copy, check=True)


def run(block: Block, copy: Path) -> str:
    """What a program or a command prints, with the copy's packages in front of the installed ones."""
    path = os.pathsep.join(map(str, (copy, copy / "grader")))
    environment = {**os.environ, "PYTHONPATH": path, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", "-ec", block.text] if block.says.startswith("sh") else [sys.executable, "-c", block.text]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", first_of(FEW))
def test_an_example_can_be_followed_word_by_word(name: str, copy: Path) -> None:
    blocks = examples()[name]
    printed = ""
    for block in blocks:
        if block.says.endswith(" run"):
            printed = run(block, copy)
        elif block.says == "text":
            assert printed.splitlines() == block.text.splitlines()
        else:
            follow(block, copy)
    if ALL:
        run(RULES, copy)
    touched = Counter(Path(path).suffix for path in {block.path for block in blocks if block.path})
    assert all(touched[suffix] <= most for suffix, most in FEW[name].items())
    assert touched.keys() <= {*FEW[name], ".po"}
    assert sum(block.says == "text" for block in blocks), "nothing shows that it works"
