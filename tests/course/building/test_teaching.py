"""The pages for teachers: each chapter has one, and the page on new exercises is followed to the letter."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest

from nbjudge_tests.classroom.commands import python
from tests.course.answer_files import ROOT, assignments, by_hand, master

TEACHING = ROOT / "docs" / "teaching"
PAGE = (TEACHING / "new_exercise.md").read_text(encoding="utf-8")
NAME = "09_halve"
LEFT_OUT = shutil.ignore_patterns("__pycache__", "answers", "node_modules")


@pytest.mark.parametrize("name", assignments())
def test_each_chapter_has_a_page_for_its_teacher(name: str) -> None:
    text = (TEACHING / f"{name}.md").read_text(encoding="utf-8")
    for part in ("45 minutes", "90 minutes", "wrong", "ask", "Rubric", "weak"):
        assert part.lower() in text.lower(), part
    assert f"({name}.md)" in (TEACHING / "README.md").read_text(encoding="utf-8")
    assert len(by_hand(name)) == 1


def rubric(text: str) -> list[tuple[str, str]]:
    """Points and what they are for, row by row."""
    return re.findall(r"^\| (\d+) \| (.*) \|$", text, re.MULTILINE)


@pytest.mark.parametrize("name", assignments())
def test_an_assignment_says_what_points_are_for_and_only_the_teacher_s_page_what_is_right(name: str) -> None:
    page = rubric((TEACHING / f"{name}.md").read_text(encoding="utf-8").partition("rubric")[2])
    (shown,) = [cell.source for cell in master(name).cells if cell.kind == "given"]
    assert re.fullmatch(r"<details><summary>[^<]+</summary>\n\n.*\n\n</details>", shown, re.DOTALL), "a fold"
    assert [points for points, _ in rubric(shown)] == [points for points, _ in page]
    assert not {row for _, row in rubric(shown)} & {row for _, row in page}


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What the page's commands work on: the tools, the tests, no exercise but the page's own."""
    for folder in ("tools", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=LEFT_OUT)
    for name in ("pyproject.toml", "nbgrader_config.py"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    (exercise,), (hints,), (answers,) = blocks("python"), blocks("markdown"), blocks("toml")
    before, marker, after = exercise.partition('# %% grade_id="write_halve" ')
    written = {
        f"source/{NAME}.py": f"{before}{hints}\n{marker}{after}",
        f"tests/data/answers/{NAME}/write_halve.toml": answers,
    }
    for path, text in written.items():
        assert f"`{path}`" in PAGE
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_exercise_has_about_twenty_lines() -> None:
    (exercise,) = blocks("python")
    code = [line for line in exercise.splitlines() if line.strip() and not line.startswith("# %%")]
    assert len(code) <= 20


@pytest.mark.whole
def test_the_page_on_new_exercises_is_followed_to_the_letter(clone: Path) -> None:
    (commands,) = blocks("")
    build, prove = commands.splitlines()
    assert f"wrote release/en/{NAME}/{NAME}.ipynb" in python(clone, *build.split()[1:])
    released = nbformat.read(clone / "release" / "en" / NAME / f"{NAME}.ipynb", as_version=4)
    assert "x / 2" not in "\n".join(cell.source for cell in released.cells)
    everything, _, *command = prove.split()
    assert everything == "SEEGRAD_TEST_ALL=1"
    told = python(clone, *command, "-q", "-p", "no:cacheprovider", timeout_s=580, SEEGRAD_TEST_ALL="1")
    passed = re.search(r"^([0-9]+) passed", told, re.MULTILINE)
    assert passed is not None, told
    assert int(passed[1]) >= sum(block.count("[[") for block in blocks("toml"))
