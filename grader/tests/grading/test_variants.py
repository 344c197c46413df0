"""Each student's own numbers: an honest answer counts by them, somebody else's doesn't, whatever a notebook says.

The course is plain Python and draws as the README says; the student's own kernel draws the same, as nbgrader runs it.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from nbjudge.grading.questions import DRAWS
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import nbgrader, python
from nbjudge_tests.classroom.roster import filled

README = Path(small.ROOT / "grader" / "README.md").read_text(encoding="utf-8")
NAME = "draws"


def recipe() -> str:
    """The README's own lines."""
    found = re.search(r"```python\n(import os, random\n.*?)```", README, re.DOTALL)
    assert found
    return found[1]


def number_of(student: str) -> int:
    return random.Random(f"my course, spring 2026/{student}/1").randint(2, 99)  # noqa: S311 -- nothing secret


TEST = """assert isinstance(product, int), "a number"
### BEGIN HIDDEN TESTS
assert product == 7 * k, f"{product} isn't 7 * {k}"
### END HIDDEN TESTS"""
SCALED_TEST = "assert scaled(3) == 3 * k\n### BEGIN HIDDEN TESTS\nassert scaled(-1.5) == -1.5 * k\n### END HIDDEN TESTS"


def course(root: Path, solution: str = "product = 7 * k") -> Path:
    """The course's folder with its source; nothing generated yet."""
    (root / "source" / NAME).mkdir(parents=True)
    small.configure(root)
    cells = [
        new_code_cell(recipe(), id="draw"),
        small.cell(f"### BEGIN SOLUTION\n{solution}\n### END SOLUTION", "product", solution=True),
        small.cell(TEST, "product_test", points=2, grade=True, locked=True),
        small.cell(
            "def scaled(x):\n    ### BEGIN SOLUTION\n    return k * x\n    ### END SOLUTION", "scaled", solution=True
        ),
        small.cell(SCALED_TEST, "scaled_test", points=3, grade=True, locked=True),
    ]
    nbformat.write(new_notebook(cells=cells, metadata=small.KERNEL), root / "source" / NAME / f"{NAME}.ipynb")
    return root


def hand_in(root: Path, student: str, whose: str, lie: str = "") -> None:
    """Literal answers, right for one student's number."""
    k = number_of(whose)
    answers = {"product": f"{lie}product = {7 * k}", "scaled": f"def scaled(x):\n    return {k} * x"}
    released = nbformat.read(root / "release" / "en" / NAME / f"{NAME}.ipynb", as_version=4)
    folder = root / "submitted" / student / NAME
    folder.mkdir(parents=True)
    nbformat.write(filled(released, answers, ()), folder / f"{NAME}.ipynb")


LIES = {
    "says": "import os\nos.environ['NBJUDGE_STUDENT'] = 'ada'\n",
    "binds": f"k = {number_of('ada')}\n",
    "patches": "import random\nrandom.Random.randint = lambda *_: 0\n",
    "imports": "import sys, types\nsys.modules['random'] = types.SimpleNamespace(Random=None)\nstudent = 'ada'\n",
}


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = course(tmp_path_factory.mktemp("variants") / "course")
    nbgrader(root, "generate_assignment", NAME)
    for student in ("ada", "bob"):
        hand_in(root, student, student)
    hand_in(root, "copy", "ada")
    for student, lie in LIES.items():
        hand_in(root, student, "ada", lie)
    python(root, "-m", "nbjudge", "autograde", NAME)
    return root


def points(root: Path) -> dict[str, float]:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as book:
        return {one.student.id: one.score for one in book.assignment_submissions(NAME)}


def test_the_students_have_numbers_of_their_own() -> None:
    assert len({number_of(student) for student in ("ada", "bob", "copy", *LIES)}) == 3 + len(LIES)


def test_everybody_is_graded_by_their_own_numbers(graded: Path) -> None:
    assert {student: points(graded)[student] for student in ("ada", "bob")} == {"ada": 5.0, "bob": 5.0}


def test_somebody_else_s_answers_get_nothing_whatever_the_notebook_says_of_its_owner(graded: Path) -> None:
    found = points(graded)
    assert {student: found[student] for student in ("copy", *LIES)} == dict.fromkeys(("copy", *LIES), 0.0)


def test_the_reason_names_the_student_s_own_numbers(graded: Path) -> None:
    said = python(graded, "-m", "nbjudge", "why", "copy", NAME)
    assert f"{7 * number_of('ada')} isn't 7 * {number_of('copy')}" in said


def test_the_same_file_under_another_name_is_graded_anew(graded: Path) -> None:
    """What is kept of ada's is never somebody else's: who it is belongs to the key."""
    text = (graded / "submitted" / "ada" / NAME / f"{NAME}.ipynb").read_bytes()
    (graded / "submitted" / "twin" / NAME).mkdir(parents=True)
    (graded / "submitted" / "twin" / NAME / f"{NAME}.ipynb").write_bytes(text)
    python(graded, "-m", "nbjudge", "autograde", NAME)
    assert (points(graded)["ada"], points(graded)["twin"]) == (5.0, 0.0)


def test_a_reference_that_holds_for_one_student_only_is_the_author_s_error(tmp_path: Path) -> None:
    """The reference answer draws a number itself; its literal is right for that one and for no other."""
    root = course(tmp_path / "course", f"product = {7 * number_of('the reference answer')}")
    said = nbgrader(root, "generate_assignment", NAME, status=1)
    assert "1 of the tests failed on the reference answer" in said
    assert f"): failed, 0 of 2: AssertionError: {7 * number_of('the reference answer')} isn't 7 *" in said


@pytest.mark.parametrize("variable", ["NBJUDGE_STUDENT", "JUPYTERHUB_USER"])
def test_a_learner_s_own_kernel_draws_the_same(
    variable: str, graded: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a hub by the hub's word, at home by the learner's; nbgrader's own cells run there as they are."""
    for name in ("NBJUDGE_STUDENT", "JUPYTERHUB_USER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "ada")
    handed_in = nbformat.read(graded / "submitted" / "ada" / NAME / f"{NAME}.ipynb", as_version=4)
    handed_in.cells.append(new_code_cell("print(k)"))
    NotebookClient(handed_in, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert handed_in.cells[-1].outputs[0].text == f"{number_of('ada')}\n"


def test_what_draws_is_known_by_its_text() -> None:
    assert DRAWS.search(recipe())
    assert DRAWS.search("k = variant(student(), 1).whole('k', 2, 9)")
    assert not DRAWS.search("covariant = 1")
