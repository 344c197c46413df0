"""What is wrong with a master is said when the assignment is generated: where, what to do, and by an exit status."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions, LockCells

from nbjudge.__main__ import main
from nbjudge.course.authoring import of_names, of_source
from nbjudge.course.naming import Written, naming
from nbjudge.grading.prove import KINDS
from nbjudge.model import Notebook
from nbjudge.pages.generating import TEMPLATES
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import nbgrader, python

ANSWER = "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"
TEST = "assert double(2) == 4"


def master(answer: str = ANSWER, test: str = TEST, *more: Any) -> Any:
    cells = [
        *more,
        small.cell(answer, "double", solution=True),
        small.cell(test, "double_test", points=2, grade=True, locked=True),
    ]
    return new_notebook(cells=cells, metadata=small.KERNEL)


def marked(**marks: Any) -> Any:
    """A master with one more cell, whose marks are these."""
    made = master()
    kind = new_markdown_cell if marks.pop("text", False) else new_code_cell
    made.cells.append(kind("1", metadata={"nbgrader": {"schema_version": 3, **marks}}))
    return made


BY_ITSELF = {  # what is wrong: a master, what is said of it
    "a solution that isn't Python": (
        master("def double(x):\n    ### BEGIN SOLUTION\n    return 2 *\n    ### END SOLUTION"),
        "ps1.ipynb, cell 'double', line 3: the solution isn't Python (invalid syntax). Correct it.",
    ),
    "a solution under a magic that isn't Python": (
        master("%%time\n### BEGIN SOLUTION\nx = (\n### END SOLUTION"),
        "ps1.ipynb, cell 'double', line 3: the solution isn't Python ('(' was never closed). Correct it.",
    ),
    "a test that isn't Python": (
        master(ANSWER, "x = 1\nassert double(2) =="),
        "ps1.ipynb, cell 'double_test', line 2: the test isn't Python (invalid syntax). Correct it.",
    ),
    "a test that is half hidden": (
        master(ANSWER, "for n in (1, 2):\n    ### BEGIN HIDDEN TESTS\n    double(n)\n    ### END HIDDEN TESTS"),
        "ps1.ipynb, cell 'double_test', line 1: without its hidden part, which is how students get it, the test isn't "
        "Python (expected an indented block after 'for' statement on line 1). Hide whole statements, or leave a "
        "`pass`.",
    ),
    "a solution without an end": (
        master("def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x"),
        "ps1.ipynb, cell 'double', line 2: 'BEGIN SOLUTION' without 'END SOLUTION'. Write `### END SOLUTION` where it "
        "ends.",
    ),
    "a solution in a cell without a mark": (
        master(ANSWER, TEST, new_code_cell("x = 1\n### BEGIN SOLUTION\ny = 2\n### END SOLUTION")),
        "ps1.ipynb, code cell 1, line 2: 'BEGIN SOLUTION' stands in a cell that isn't an answer. Mark the cell as an "
        "autograded answer.",
    ),
    "hidden tests in an answer": (
        master(ANSWER + "\n### BEGIN HIDDEN TESTS\nassert double(3) == 6\n### END HIDDEN TESTS"),
        "ps1.ipynb, cell 'double', line 5: 'BEGIN HIDDEN TESTS' stands in a cell that isn't a test. Mark the cell as "
        "autograded tests.",
    ),
    "points that aren't a number": (
        marked(grade=True, solution=False, locked=True, grade_id="q", points="abc"),
        "ps1.ipynb, cell 'q': its points are 'abc'. Write a number from 0 upwards into its Points.",
    ),
    "no points": (
        marked(grade=True, solution=False, locked=True, grade_id="q"),
        "ps1.ipynb, cell 'q': it has no points. Write a number from 0 upwards into its Points.",
    ),
    "points below zero": (
        marked(grade=True, solution=True, locked=False, grade_id="q", points=-1),
        "ps1.ipynb, cell 'q': its points are -1. Write a number from 0 upwards into its Points.",
    ),
    "a flag that is none": (
        marked(grade="yes", solution=False, locked=True, grade_id="q", points=1),
        "ps1.ipynb, cell 'q': 'grade' is 'yes' in its nbgrader metadata. Write true or false.",
    ),
    "no grade_id": (
        marked(grade=False, solution=True, locked=False),
        "ps1.ipynb, code cell 3: its grade_id is None. Give it a name of letters, digits, - and _.",
    ),
    "one grade_id twice": (
        marked(grade=False, solution=True, locked=False, grade_id="double"),
        "ps1.ipynb, code cell 3 ('double'): code cell 1 has the same grade_id. Give each marked cell a name "
        "of its own, in its ID.",
    ),
    "a test in a text cell": (
        marked(text=True, grade=True, solution=False, locked=True, grade_id="q", points=1),
        "ps1.ipynb, cell 'q': a Markdown cell that is graded is read by a person. Mark it as a manually graded answer.",
    ),
    "a task that is code": (
        marked(grade=False, solution=False, locked=True, task=True, grade_id="q", points=1),
        "ps1.ipynb, cell 'q': a task has to be a Markdown cell. Change its type, or its mark.",
    ),
}


@pytest.mark.parametrize("name", BY_ITSELF)
def test_what_the_source_shows_by_itself(name: str) -> None:
    document, said = BY_ITSELF[name]
    remarks = of_source("ps1", document)
    assert [str(one) for one in remarks] == [said]
    assert remarks[0].stops


@pytest.mark.parametrize(
    "text", ["%%bash\nls ((", "!ls\n%pip list", "await f()", "x = !ls", "%%capture out\nprint(1)", "f?"]
)
def test_ipython_s_own_syntax_is_no_error(text: str) -> None:
    made = master()
    made.cells.append(new_code_cell(text))
    assert of_source("ps1", made) == []


def test_code_of_another_language_isn_t_looked_at() -> None:
    made = master("f <- function(x) { 2 * x }")
    made.metadata["kernelspec"] = {"name": "ir", "language": "R", "display_name": "R"}
    assert of_source("ps1", made) == []


def test_points_as_older_versions_of_nbgrader_wrote_them() -> None:
    assert of_source("ps1", marked(grade=True, solution=False, locked=True, grade_id="q", points="0.5")) == []


def test_an_end_that_stands_twice_stops_nothing_where_nothing_stands_between() -> None:
    (one,) = of_source("ps1", master(ANSWER + "\n\n### END SOLUTION"))
    assert (one.line, one.what, one.stops) == (6, "'END SOLUTION' stands twice", False)
    (one,) = of_source("ps1", master(ANSWER + "\nprint(double(2))\n### END SOLUTION"))
    assert (one.line, one.what, one.stops) == (6, "'END SOLUTION' without 'BEGIN SOLUTION'", True)


README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
WHY = {"grade_id": "why", "grade": True, "solution": True, "points": 2}
REGION = "### BEGIN SOLUTION\n{}\n### END SOLUTION"


@pytest.mark.parametrize(
    ("above", "written", "warned"),
    [
        (None, "Why?", True),
        (None, "Since it repeats.", True),
        (None, REGION.format("Why?\nSince it repeats."), True),
        (None, f"Why?\n\n{REGION.format('Since it repeats.')}", False),
        ("## Question 3", "Explain it.", True),
        ("## Why does it repeat?", "It does.", False),
        ("Explain it.", "It does.", False),
        ("Now a text.", "Why does it repeat?\n\n* It does.", True),
        ("Explain it.", "", False),
    ],
)
def test_a_question_that_is_taken_out_with_its_answer(above: str | None, written: str, warned: bool) -> None:
    made = master()
    made.cells += [new_markdown_cell(above)] if above else []
    made.cells.append(new_markdown_cell(written, metadata={"nbgrader": WHY}))
    said = of_source("ps1", made)
    assert [(str(one).partition(": nothing of this text is released")[0], one.stops) for one in said] == [
        ("ps1.ipynb, cell 'why'", False)
    ] * warned


def test_questions_that_are_worth_nothing_are_told_together() -> None:
    """As nbgrader's sidebar marks them, where nobody has written points."""
    for points, said in (([0, 0], 1), ([0, 2], 0), ([2, 3], 0)):
        marks = [{"grade_id": f"q{n}", "grade": True, "locked": True, "points": each} for n, each in enumerate(points)]
        made = master()
        made.cells = [new_code_cell("", metadata={"nbgrader": each}) for each in marks]
        found = [one for one in of_source("ps1", made) if "0 points" in str(one)]
        assert [one.stops for one in found] == [False] * said


def test_a_broken_example_may_be_given() -> None:
    (one,) = of_source("ps1", master(ANSWER, TEST, new_code_cell("mend this:")))
    assert not one.stops


UNKNOWN = (
    "ps1.ipynb, cell 'double_test', line 3: the test reads 'dobule', which neither the release nor an answer gives a "
    "value. Correct its spelling, import it, or define it in the test or in a cell that students are given."
)


def remarks(book: Any) -> list[str]:
    """What is said of the names of a master, whose rows are its own cells."""
    cells = [(cell, cell.metadata.get("nbgrader", {})) for cell in book.cells]
    roles = [("answer" if marks.get("solution") else "test" if marks.get("grade") else "given") for _, marks in cells]
    found = [
        Written(role, (cell.source,), marks.get("grade_id", ""))
        for role, (cell, marks) in zip(roles, cells, strict=True)
    ]
    return [str(one) for one in of_names(Notebook("ps1", "", (), naming(found)), book)]


TRIAL = "try:\n    r = double(-1)\nexcept {}:\n    {}\nelse:\n    assert r == -2"
TUPLE = "out = double(2)\nif isinstance(out, tuple):\n    assert len(out) == 1"


@pytest.mark.parametrize(
    ("test", "lines"),
    [
        (TRIAL.format("ValueError", "pass"), []),
        (TRIAL.format("Exception", "pass"), [6]),
        (TRIAL.format("ValueError", "r = -2"), [6]),
        (TRIAL.format("ValueError as error", "assert error.args"), []),
        (TRIAL.format("ValueError", "raise AssertionError"), []),
        ("for n in (1, 2):\n    " + TRIAL.format("ValueError", "pass").replace("\n", "\n    "), [7]),
        ("try:\n    assert double(2) == 4\nexcept ValueError:\n    pass", [2]),
        ("try:\n    double(-1)\n    assert False\nexcept ValueError:\n    pass", []),
        ("try:\n    assert abs(2) == 2\nexcept ValueError:\n    pass", []),
        (TUPLE, [3]),
        (f"{TUPLE}\nelse:\n    assert out == 4", []),
        (TUPLE.replace("assert len(out) == 1", "out = out[0]"), []),
        (TUPLE.replace("assert len(out) == 1", "raise ValueError"), []),
        (TUPLE.replace("double(2)", "2"), []),
        ("if double(2) == 4:\n    print(1)\nelse:\n    np.testing.assert_equal(1, 2)", [4]),
    ],
)
def test_a_check_that_an_answer_may_come_past(test: str, lines: list[int]) -> None:
    said = remarks(master("def double(x): return 2 * x", test))
    assert [one.partition("line ")[2].partition(":")[0] for one in said if "comes past" in one] == [*map(str, lines)]


def test_a_name_that_nobody_gives_a_value() -> None:
    assert remarks(master(ANSWER, "import copy\nwant = copy.copy(4)\nassert dobule(2) == want")) == [UNKNOWN]


def test_a_name_that_only_a_test_binds() -> None:
    answer = "def double(x):\n    # twice\n    return 2 * x + n"
    (said,) = remarks(master(answer, "n = 0\nassert double(2) == 4"))
    assert said == (
        "ps1.ipynb, cell 'double', line 3: this reads 'n', which only tests give a value (cell 'double_test'), and "
        "answers don't get what tests bind. Pass it as an argument, or give it a value here or in a cell that students "
        "are given."
    )
    assert not remarks(master(answer, "n = 0\nassert double(2) == 4", new_code_cell("n = 0")))
    assert not remarks(master("def double(x): return 2 * math.exp(x)", "import math\nassert double(0) == 2"))
    assert not remarks(master("def double(x): return 2 * int(input(x))", "def input(x): return x\nassert double(2)"))


@pytest.mark.parametrize(
    ("given", "warned"),
    [("n = 3  # try other numbers", True), ("# change this\nn = 3", True), ("n = 3", False), ("n = None", True)],
)
def test_a_constant_that_asks_to_be_changed(given: str, warned: bool) -> None:
    said = remarks(master(ANSWER, "assert double(n) == 2 * n", new_code_cell(given)))
    assert [("'n' looks like something that students are to change" in one) for one in said] == [True] * warned
    assert not remarks(master(ANSWER, "assert double(2) == 4", new_code_cell(given)))


@pytest.mark.parametrize(
    ("given", "warned"),
    [("share = double(2) / 4", True), ("share = 3", False), ("share = Double()", False), ("other = double(2)", False)],
)
def test_a_value_that_the_release_computes_with_an_answer(given: str, warned: bool) -> None:
    """It comes from where the answers are: a submission can bind it to anything."""
    answer = f"{ANSWER}\nclass Double:\n    pass"
    said = remarks(master(answer, "assert share", new_code_cell(given)))
    assert bool([one for one in said if "is computed with an answer" in one]) is warned


FLAGS = {  # as JupyterLab's sidebar writes them
    "Autograded answer": {"solution": True},
    "Autograded tests": {"grade": True, "locked": True, "points": 1},
    "Manually graded answer": {"grade": True, "solution": True, "points": 1},
    "Manually graded task": {"task": True, "locked": True, "points": 1},
    "Read-only": {"locked": True},
}
HELD_BACK = {  # "mine" isn't released; all other cells are "kept"
    "Autograded answer": "kept\n### BEGIN SOLUTION\nmine\n### END SOLUTION",
    "Autograded tests": "kept\n### BEGIN HIDDEN TESTS\nmine\n### END HIDDEN TESTS",
    "Manually graded answer": "mine",
}


@pytest.mark.parametrize(
    ("chosen", "kind", "released", "editable"),
    [
        ("Autograded answer", "code", "# YOUR CODE HERE", True),
        ("Autograded tests", "code", "kept", False),
        ("Manually graded answer", "markdown", "YOUR ANSWER HERE", True),
        ("Manually graded answer", "code", "# YOUR CODE HERE", True),
        ("Manually graded task", "markdown", "kept", False),
        ("Read-only", "markdown", "kept", False),
    ],
)
def test_what_the_manual_says_of_each_kind_of_cell(chosen: str, kind: str, released: str, editable: bool) -> None:
    """By nbgrader's own steps, under the names that its sidebar has."""
    marks = {"grade_id": "q", "grade": False, "solution": False, "locked": False, "schema_version": 3, **FLAGS[chosen]}
    new = new_code_cell if kind == "code" else new_markdown_cell
    book, resources = (
        new_notebook(cells=[new(HELD_BACK.get(chosen, "kept"), metadata={"nbgrader": marks})]),
        {"nbgrader": {}},
    )
    for step in (LockCells, ClearSolutions, ClearHiddenTests):
        book, resources = step().preprocess(book, resources)
    (cell,) = book.cells
    assert (released in cell.source, "mine" in cell.source) == (True, False)
    assert cell.metadata.get("editable", True) is editable
    (manual,) = [line for line in README.splitlines() if line.startswith(f"| *{chosen}*")]
    assert ("locked" in manual.rpartition("|")[0].rpartition("|")[2]) is not editable
    sidebar = Path(sys.prefix, "share/jupyter/labextensions/@jupyter/nbgrader/static").glob("*.js")
    assert any(f'"{chosen}"' in path.read_text(encoding="utf-8") for path in sidebar)


# ---------------------------------------------------------------------- by the commands


@pytest.fixture
def course(tmp_path: Path) -> Path:
    root = small.make(tmp_path / "course")
    for path in (root / "source" / small.NAME).iterdir():
        path.unlink()
    return root


def write(root: Path, book: Any) -> None:
    nbformat.write(book, root / "source" / small.NAME / "ps1.ipynb")


def released(root: Path) -> Path:
    return root / "release" / "en" / small.NAME / "ps1.ipynb"


@pytest.mark.whole
def test_nbgrader_s_own_command_says_it_and_releases_nothing(course: Path) -> None:
    document, said = BY_ITSELF["a solution that isn't Python"]
    write(course, document)
    assert said in nbgrader(course, "generate_assignment", small.NAME, status=1)
    assert not released(course).exists()
    assert not (course / "gradebook.db").exists()
    write(course, master())
    nbgrader(course, "generate_assignment", small.NAME)
    assert "YOUR CODE HERE" in released(course).read_text()


@pytest.mark.slow
def test_a_committed_release_stays_where_its_source_is_wrong(course: Path, monkeypatch, capsys) -> None:
    write(course, master())
    monkeypatch.chdir(course)
    assert main(["generate", small.NAME]) == 0
    before = released(course).read_bytes()
    write(course, master(ANSWER, "import copy\nwant = copy.copy(4)\nassert dobule(2) == want"))
    assert main(["generate", small.NAME]) == 2
    assert UNKNOWN in capsys.readouterr().err
    assert released(course).read_bytes() == before


@pytest.mark.slow
def test_the_author_s_own_answers_are_tried(course: Path, monkeypatch, capsys) -> None:
    page = 'import urllib.request\npage = urllib.request.urlopen("http://127.0.0.1:9/x", timeout=1).read()'
    write(course, master(ANSWER, "assert double(2) == 5", new_code_cell(page)))
    monkeypatch.chdir(course)
    assert main(["generate", small.NAME]) == 2
    said = capsys.readouterr().err
    assert "double_test (ps1.ipynb, line 1): failed, 0 of 2: This doesn't hold: assert double(2) == 5\n" in said
    assert "before that, code cell 1 of ps1.ipynb, line 2, raises URLError: <urlopen error" in said
    assert "--without-reference" not in said, "which generate doesn't take"
    assert "There is no network here: put what it downloads beside the notebook" in said
    assert not released(course).exists()
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        assert [one.name for one in gradebook.assignments] == [], "no export has a column of it"
        gradebook.add_assignment(small.NAME, duedate="2027-01-01 00:00")
    assert main(["generate", small.NAME]) == 2
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        (planned,) = gradebook.assignments
        assert (planned.notebooks, str(planned.duedate)) == ([], "2027-01-01 00:00:00")


@pytest.mark.slow
def test_questions_that_give_points_for_nothing(course: Path, monkeypatch, capsys) -> None:
    write(course, master(ANSWER, "assert double is not None"))
    monkeypatch.chdir(course)
    settings = course / "nbgrader_config.py"
    settings.write_text(settings.read_text().replace('prove = "off"', 'prove = "warn"'))
    assert main(["generate", small.NAME]) == 0
    said = capsys.readouterr()
    assert "double_test gives 2 of 2 points to 'stub'" in said.err
    assert said.err.splitlines()[:3] == [
        f"{small.NAME}: making the release and the rows of the gradebook",
        f"{small.NAME}: grading the author's own answers",
        f"{small.NAME}: handing in {len(KINDS)} answers that deserve no points",
    ]
    assert len(said.out.splitlines()) == 1, "what it does is no part of what it has made"
    settings.write_text(settings.read_text().replace('prove = "warn"', 'prove = "refuse"'))
    assert main(["generate", small.NAME, "--force"]) == 2
    said = capsys.readouterr().err
    assert "double_test gives 2 of 2 points to 'stub'" in said
    assert f"{small.NAME}: what was released before is taken back, too" in said
    assert not released(course).exists()


@pytest.mark.whole
def test_regrade_knows_what_generating_has_made_of_autotests(course: Path) -> None:
    """Without nbgrader's file of templates one sentence says so; a changed line is a changed test."""
    folder = course / "source" / small.NAME
    write(course, master(ANSWER, "# tests\n### AUTOTEST double(3)\n### HASHED AUTOTEST double(4)"))
    said = python(course, "-m", "nbjudge", "generate", small.NAME, status=2)
    assert "ps1.ipynb, cell 'double_test', line 2: 'AUTOTEST' is made into tests by autotests.yml, which lies" in said
    assert f"Copy nbgrader's own: cp {TEMPLATES} {folder}/." in said
    assert "Traceback" not in said
    shutil.copy(TEMPLATES, folder)
    python(course, "-m", "nbjudge", "generate", small.NAME)
    small.hand_in(course, "ada", {"double": "def double(x):\n    return x + x"})
    assert "1 graded" in python(course, "-m", "nbjudge", "regrade", small.NAME)
    write(course, master(ANSWER, "# tests\n### AUTOTEST double(3)\n### HASHED AUTOTEST double(5)"))
    said = python(course, "-m", "nbjudge", "regrade", small.NAME, status=2)
    assert "has changed since the release was generated (double_test)" in said
