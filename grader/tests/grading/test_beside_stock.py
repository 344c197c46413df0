"""What the README says of cheats: each of its rows is handed in for a small assignment, to stock nbgrader and to us."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_notebook
from nbgrader.api import Gradebook

from nbjudge_tests.classroom.commands import nbgrader, python
from nbjudge_tests.classroom.small import KERNEL, cell

CHEATS = Path(__file__).parents[1] / "data" / "cheats"
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \[.*\]\(tests/data/cheats/(\w+)\.ipy\) \| (\d+) of 4 \| (\d+) of 4 \|$", README, re.MULTILINE)
RIGHT = "import math\ndef double(x): return x + x\ndef area(radius): return math.pi * radius**2"
SOLUTION = f"### BEGIN SOLUTION\n{RIGHT}\n### END SOLUTION"
EXACT = "assert double(2) == 4\n### BEGIN HIDDEN TESTS\nassert double(21) == 42\n### END HIDDEN TESTS"
NEAR = """import math
assert math.isclose(area(1), 3.1416, rel_tol=1e-4)
### BEGIN HIDDEN TESTS
assert math.isclose(area(3), 28.2743, rel_tol=1e-4)
### END HIDDEN TESTS"""
OURS = "from nbjudge.plugin import install\nc = get_config()\ninstall(c)\nc.SandboxedAutograde.prove = 'off'\n"


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course whose class has handed in each cheat, and an honest answer."""
    root = tmp_path_factory.mktemp("stock")
    (root / "source" / "ps").mkdir(parents=True)
    tests = [
        cell(text, name, points=2, grade=True, locked=True) for name, text in {"exact": EXACT, "near": NEAR}.items()
    ]
    nbformat.write(
        new_notebook(cells=[cell(SOLUTION, "answer", solution=True), *tests], metadata=KERNEL),
        root / "source" / "ps" / "ps.ipynb",
    )
    nbgrader(root, "generate_assignment", "ps", "--create")
    answers = {path.stem: path.read_text(encoding="utf-8") for path in CHEATS.glob("*.ipy")} | {"honest": RIGHT}
    for student, answer in answers.items():
        book = nbformat.read(root / "release" / "ps" / "ps.ipynb", as_version=4)
        book.cells[0].source = answer
        folder = root / "submitted" / student / "ps"
        folder.mkdir(parents=True)
        nbformat.write(book, folder / "ps.ipynb")
    return root


@pytest.fixture(scope="module")
def points(stock: Path) -> dict[str, tuple[float, float]]:
    """Student → points from stock nbgrader, points from us."""
    ours = stock.with_name("ours")
    shutil.copytree(stock, ours)
    nbgrader(stock, "autograde", "ps")
    (ours / "nbgrader_config.py").write_text(OURS, encoding="utf-8")
    python(ours, "-m", "nbjudge", "autograde", "ps")
    theirs, mine = recorded(stock), recorded(ours)
    return {student: (theirs[student], mine[student]) for student in theirs}


def recorded(root: Path) -> dict[str, float]:
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as book:
        return {one.student.id: one.score for one in book.assignment_submissions("ps")}


@pytest.mark.whole
def test_an_honest_answer_has_its_points_from_both(points: dict[str, tuple[float, float]]) -> None:
    assert points["honest"] == (4, 4)


@pytest.mark.whole
@pytest.mark.parametrize(("cheat", "theirs", "ours"), ROWS)
def test_a_cheat_pays_as_the_page_says(
    cheat: str, theirs: str, ours: str, points: dict[str, tuple[float, float]]
) -> None:
    assert points[cheat] == (float(theirs), float(ours))


def test_the_page_has_every_cheat() -> None:
    assert {cheat for cheat, *_ in ROWS} == {path.stem for path in CHEATS.glob("*.ipy")}
