"""The README's five minutes of an instructor, word for word, in a fresh clone and an empty home."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAME = "05_data_versus_detach"
STUDENT = "ada"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return cloned(tmp_path / "clone")


def cloned(folder: Path) -> Path:
    """What is committed or about to be, with this environment under the name that `make lab` gives it."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if name.startswith(("release/en", "source/", "nbgrader_config")) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def commands(readme: str) -> list[str]:
    """The block's lines without what a `#` says; a line that is a remark alone isn't run."""
    text = (ROOT / readme).read_text(encoding="utf-8")
    block = next(each for each in text.split("```")[1::2] if "nbjudge autograde" in each)
    return [line for each in block.splitlines() if (line := each.partition("#")[0].strip())]


def run(line: str, folder: Path) -> str:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Followed:
    """A clone in which the block was followed. `said`: command of ours → what it printed."""

    clone: Path
    before: dict[Path, bytes]
    said: dict[str, str]


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    clone = cloned(tmp_path_factory.mktemp("first") / "clone")
    return Followed(clone, released(clone), {line.split()[1]: run(line, clone) for line in commands("README.md")})


def released(clone: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (clone / "release").rglob("*.ipynb")}


def test_both_readmes_say_the_same_commands() -> None:
    assert commands("README.md") == commands("README.zh_CN.md")


@pytest.mark.whole
def test_an_instructor_s_first_commands_do_what_they_say(followed: Followed) -> None:
    assert "in the gradebook" in followed.said["generate"]
    assert "up to date" in followed.said["generate"]
    assert STUDENT in followed.said["autograde"]


@pytest.mark.whole
def test_the_first_commands_end_with_feedback_and_grades_that_others_cannot_read(followed: Followed) -> None:
    assert [*(followed.clone / "feedback" / STUDENT / NAME).glob("*.html")]
    assert [*followed.clone.glob("grades*.csv")]
    assert (followed.clone / "gradebook.db").stat().st_mode & 0o007 == 0


@pytest.mark.whole
def test_the_first_commands_leave_the_release_as_it_was(followed: Followed) -> None:
    assert released(followed.clone) == followed.before


def test_who_else_could_read_the_course_is_said(clone: Path, monkeypatch) -> None:
    monkeypatch.chdir(clone)
    for folder in (clone, *clone.parents):
        if os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid() and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    from nbjudge.course.privacy import close, exposed
    from nbjudge.plugin import converter_for

    course = converter_for(NAME, student="*").course()
    (clone / "gradebook.db").write_bytes(b"")
    (clone / "gradebook.db").chmod(0o644)
    assert {path.name for path in exposed(course)} == {"gradebook.db", "source"}
    close(course)
    assert {path.name for path in exposed(course)} == {"source"}
    clone.chmod(0o700)
    assert not [*exposed(course)]
