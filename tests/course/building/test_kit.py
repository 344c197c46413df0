"""What a class receives: all that it needs, and nothing that answers an exercise."""

from __future__ import annotations

import functools
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from tests.course.answer_files import answers, assignments, by_hand, exercises, master
from tests.course.assignments.test_assignment import HIDDEN, SOLUTION
from tools import book
from tools.course.kit import make_kit
from tools.course.masters import BookError

ROOT = Path(__file__).parents[3]
LANGUAGES = ("en", "zh_CN")
MIN_LENGTH = 15  # of a line that gives something away: shorter ones are `return x`


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_kit(ROOT, tmp_path_factory.mktemp("kit") / "class")


@pytest.fixture(scope="module")
def bared(kit: Path) -> dict[str, str]:
    """Every file of the kit as it is searched."""
    return {name: bare(text) for name, text in texts(kit)}


def texts(kit: Path) -> Iterator[tuple[str, str]]:
    """(name, text) of every file of the kit, and of every file in its wheel."""
    for path in sorted(path for path in kit.rglob("*") if path.is_file()):
        if path.suffix != ".whl":
            yield str(path.relative_to(kit)), path.read_text(encoding="utf-8")
            continue
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                yield f"{path.name}/{name}", wheel.read(name).decode("utf-8", errors="replace")


def bare(text: str) -> str:
    """Without blanks, quotes and backslashes: as it stands in a cell, or in a notebook's JSON."""
    return re.sub(r"[\s\"'\\]+", "", text)


@functools.cache
def public() -> str:
    """What every learner reads anyway: the chapters and what they print, the library, the visible part of exercises."""
    parts = [path.read_text(encoding="utf-8") for path in (ROOT / "notebooks").glob("*.py")]
    parts += [path.read_text(encoding="utf-8") for path in (ROOT / "seegrad").rglob("*.py")]
    for path in (ROOT / "notebooks" / "executed").glob("*/*.ipynb"):
        code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        parts += [str(output) for cell in code for output in cell.outputs]  # advice of the library's
    for name in assignments():
        parts += [
            re.sub(SOLUTION, "", re.sub(HIDDEN, "", cell.source))
            for cell in master(name).cells
            if cell.kind != "manual"
        ]
    return bare("\n".join(parts))


def secrets(name: str) -> Iterator[str]:
    """Every line of the solutions, hidden tests, model answers and right answers; the wrong answers as wholes.

    A single line of a wrong answer may be what the library advises in another place.
    """
    for solution, test in exercises(name).values():
        yield from "\n".join(SOLUTION.findall(solution.source) + HIDDEN.findall(test.source)).splitlines()
    for cell in by_hand(name).values():
        yield from cell.source.splitlines()
    for answer in answers(name):
        yield from answer.source.splitlines() if answer.right else [answer.source]


@pytest.mark.parametrize("name", assignments())
def test_no_solution_no_hidden_test_and_no_answer_is_in_the_kit(bared: dict[str, str], name: str) -> None:
    known = public()
    found = {bare(line) for line in secrets(name) if len(line.strip()) >= MIN_LENGTH}
    assert len(found) > 30
    for file, held in bared.items():
        assert not [line for line in found if line in held and line not in known], file


def test_the_search_would_find_a_solution() -> None:
    """The same search on what an instructor has."""
    name = assignments()[0]
    text = bare((ROOT / "source" / name / f"{name}.ipynb").read_text(encoding="utf-8"))
    hidden = {bare(line) for line in secrets(name) if len(line.strip()) >= MIN_LENGTH}
    assert len([line for line in hidden if line in text]) > 20


def test_the_kit_holds_the_chapters_the_releases_the_library_and_its_environment(kit: Path) -> None:
    for lang in LANGUAGES:
        for folder in ("notebooks", "release"):
            ours = {path.relative_to(ROOT) for path in (ROOT / folder / lang).rglob("*.ipynb")}
            ours = {path for path in ours if ".ipynb_checkpoints" not in path.parts}
            assert {path.relative_to(kit) for path in (kit / folder / lang).rglob("*.ipynb")} == ours
    assert not (kit / "notebooks" / "executed").exists(), "what cells print is not given away"
    (wheel,) = kit.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"seegrad/__init__.py", "seegrad/static/widget.js"} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "source", "tools"))]
    assert f"./{wheel.name}[lab]" in (kit / "requirements.txt").read_text(encoding="utf-8")
    asked = [line.partition("#")[0].strip() for line in (kit / "requirements.txt").read_text("utf-8").splitlines()]
    assert "nbgrader" in asked  # the button Validate is its extension of JupyterLab
    assert re.search(r"^nbgrader==", (kit / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert Path(sys.prefix, "share", "jupyter", "labextensions", "@jupyter", "nbgrader", "package.json").is_file()
    for readme in ("README.md", "README.zh_CN.md"):
        assert "**Validate**" in (kit / readme).read_text(encoding="utf-8")
    others = {path.name for path in kit.iterdir()} - {"notebooks", "release", wheel.name}
    assert others == {"README.md", "README.zh_CN.md", "environment.yml", "requirements.txt", "constraints.txt"}


def test_places_that_the_kit_s_readme_names_are_there(kit: Path) -> None:
    for name in ("README.md", "README.zh_CN.md"):
        text = (kit / name).read_text(encoding="utf-8")
        (notebook,) = re.findall(r"^jupyter lab (\S+)$", text, re.MULTILINE)
        assert (kit / notebook).exists()
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (kit / target).exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(BookError, match="isn't empty"):
        make_kit(ROOT, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_command_wants_to_know_where(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        book.main(["student-kit"])
    assert "student-kit DIR" in capsys.readouterr().err
