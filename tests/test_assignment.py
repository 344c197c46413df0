"""Assignment 05 proven: what is right gets everything, what is wrong is told why, an empty answer gets nothing.

One class is graded by nbgrader's own command through the real grader: row k of the class hands in the k-th answer to
every exercise, so all answers are graded in about twenty submissions.
"""

from __future__ import annotations

import copy
import html
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from nbclient import NotebookClient
from nbgrader.utils import determine_grade

from tests.answer_files import ASSIGNMENT, ROOT, Answer, answers, exercises
from tools.book import Course
from tools.masters import read_master

ANSWERS = answers()
BY_CELL = {name: [answer for answer in ANSWERS if answer.cell == name] for name in exercises()}
RELEASE = Course().release(ASSIGNMENT) / f"{ASSIGNMENT}.ipynb"
ROWS = list(itertools.zip_longest(*BY_CELL.values()))
POINTS = {name: float(test.points or 0) for name, (_, test) in exercises().items()}


@dataclass(frozen=True)
class Graded:
    """What came of the class: points by student and test cell, the text of each student's feedback page."""

    points: Mapping[str, Mapping[str, float | None]]
    pages: Mapping[str, str]

    def of(self, answer: Answer) -> tuple[float | None, str]:
        """The points and the feedback of one answer: the part of the page that its test cell has."""
        student = f"row{next(number for number, row in enumerate(ROWS) if answer in row):02}"
        return self.points[student][f"{answer.cell}_test"], section(self.pages[student], answer.cell)


def section(page: str, cell: str) -> str:
    """The part of a feedback page that belongs to the test cell of one exercise, as text."""
    parts = page.split('<div class="cell ')
    return text_of(next(part for part in parts if f"cell-id={cell}_test" in part))


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page))


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course of its own, with the assignment generated into a gradebook of its own."""
    root = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    shutil.copytree(ROOT / "source" / ASSIGNMENT, root / "source" / ASSIGNMENT)
    nbgrader(root, "generate_assignment", ASSIGNMENT)
    return root


@pytest.fixture(scope="module")
def graded(course: Path) -> Graded:
    """The whole class, graded by `nbgrader autograde`, with its feedback."""
    released = nbformat.read(course / "release" / "en" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", as_version=4)
    instructor = nbformat.read(ROOT / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", as_version=4)
    hand_in(course, "stub", released)
    hand_in(course, "source", instructor)
    for number, row in enumerate(ROWS):
        hand_in(course, f"row{number:02}", answered(released, [answer for answer in row if answer]))
    nbgrader(course, "autograde", ASSIGNMENT)
    nbgrader(course, "generate_feedback", ASSIGNMENT)
    return Graded(dict(recorded(course)), dict(pages(course)))


def nbgrader(root: Path, *arguments: str) -> None:
    """One nbgrader command in a course; its output is the message when it fails."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "nbgrader", *arguments]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr


def answered(released: Any, row: list[Answer]) -> Any:
    made = copy.deepcopy(released)
    for cell in made.cells:
        cell.source = next((answer.source for answer in row if answer.cell == cell.id), cell.source)
    return made


def hand_in(root: Path, student: str, made: Any) -> None:
    folder = root / "submitted" / student / ASSIGNMENT
    folder.mkdir(parents=True)
    nbformat.write(made, folder / f"{ASSIGNMENT}.ipynb")


def recorded(root: Path) -> Iterator[tuple[str, dict[str, float | None]]]:
    from nbgrader.api import Gradebook

    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as book:
        for submission in book.assignment_submissions(ASSIGNMENT):
            grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
            yield submission.student.id, {grade.name: grade.auto_score for grade in grades}


def pages(root: Path) -> Iterator[tuple[str, str]]:
    for path in root.glob(f"feedback/*/{ASSIGNMENT}/{ASSIGNMENT}.html"):
        yield path.parts[-3], path.read_text(encoding="utf-8")


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_each_answer_gets_what_it_deserves_and_is_told_why(graded: Graded, answer: Answer) -> None:
    points, feedback = graded.of(answer)
    full = POINTS[answer.cell]
    if answer.right:
        assert points == full, feedback
        return
    assert points is not None
    assert points < full
    assert answer.points is None or points == answer.points
    assert answer.misconception is None or answer.misconception in feedback


def test_the_instructor_s_own_answers_get_everything(graded: Graded) -> None:
    assert graded.points["source"] == {**{f"{name}_test": points for name, points in POINTS.items()}, "explain": None}


def test_the_untouched_assignment_gets_nothing(graded: Graded) -> None:
    assert sum(points or 0 for points in graded.points["stub"].values()) == 0


def test_no_hidden_line_stands_in_any_feedback(graded: Graded) -> None:
    released = "\n".join(cell.source for cell in nbformat.read(RELEASE, as_version=4).cells)
    lines = {line.strip() for _, test in exercises().values() for line in region(test.source)}
    hidden = {line for line in lines if len(line) > 8 and line not in released}
    assert len(hidden) > 50
    for student, page in graded.pages.items():
        text = text_of(page)
        assert not [line for line in hidden if line in text], student


HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", re.DOTALL)


def region(source: str) -> list[str]:
    return [line for found in HIDDEN.findall(source) for line in found.splitlines()]


# --- the same cells in a learner's own kernel, as Validate and stock nbgrader run them --------------------------------


def run_in_one_kernel(made: Any, folder: Path) -> dict[str, Any]:
    """The cells by grade_id after an ordinary run, errors included."""
    options = {"kernel_name": "python3", "allow_errors": True, "extra_arguments": ["--log-level=ERROR"]}
    NotebookClient(made, resources={"metadata": {"path": str(folder)}}, **options).execute()
    return {cell.id: cell for cell in made.cells}


def test_stock_nbgrader_reads_the_same_points(tmp_path: Path) -> None:
    """nbgrader's own reading of the outputs, for the instructor's answers and for one that is partly right."""
    instructor = nbformat.read(Course().source(ASSIGNMENT), as_version=4)
    partly = next(answer for answer in BY_CELL["predict"] if not answer.right and answer.points is None)
    for answer, want in ((None, 15), (partly, 12)):
        cells = run_in_one_kernel(answered(instructor, [answer] if answer else []), tmp_path)
        for name in exercises():
            points, most = determine_grade(cells[f"{name}_test"])
            assert (points, most) == (want if name == "predict" else POINTS[name], POINTS[name])


def test_an_empty_answer_is_told_in_six_lines_without_a_traceback(tmp_path: Path) -> None:
    cells = run_in_one_kernel(nbformat.read(RELEASE, as_version=4), tmp_path)
    for name in exercises():
        (error,) = [output for output in cells[f"{name}_test"].outputs if output.output_type == "error"]
        assert error.ename == "CheckFailed"
        assert 3 <= len(error.traceback) <= 6
        assert error.traceback[0].startswith("Asked")


# --- the assignment itself -------------------------------------------------------------------------------------------


def test_there_are_six_exercises_of_at_least_four_kinds_for_a_hundred_points() -> None:
    cells = read_master(ROOT / "source" / f"{ASSIGNMENT}.py").cells
    assert sum(cell.points or 0 for cell in cells) == 100
    assert [cell.grade_id for cell in cells if cell.kind in {"solution", "manual"}] == [
        "predict",
        "find",
        "repair",
        "write",
        "order",
        "explain",
    ]


@pytest.mark.parametrize("name", exercises())
def test_each_test_has_a_visible_and_a_hidden_part(name: str) -> None:
    source = exercises()[name][1].source
    assert "expect(" in re.sub(HIDDEN, "", source)
    assert len(region(source)) >= 5


@pytest.mark.parametrize("name", exercises())
def test_each_exercise_has_its_wrong_and_right_answers(name: str) -> None:
    wrong = [answer for answer in BY_CELL[name] if not answer.right]
    assert len(wrong) >= 5
    assert len({answer.misconception for answer in wrong} - {None}) >= 3
    choice = name in {"predict", "find"}  # one right answer, all wrong ones are there
    assert len([answer for answer in BY_CELL[name] if answer.right]) >= (1 if choice else 3)


def test_every_wrong_choice_is_among_the_answers() -> None:
    choices = {"predict": 5 * 2, "find": 7 + 7 + 2}
    for name, count in choices.items():
        single = [answer for answer in BY_CELL[name] if answer.misconception and answer.points is None]
        assert len({answer.source for answer in single}) == count


def test_prompts_are_plain_markdown_and_code_holds_no_sentence() -> None:
    for cell in read_master(ROOT / "source" / f"{ASSIGNMENT}.py").cells:
        if cell.cell_type == "code":
            assert not re.search(r"#\s*[A-Z][a-z]+ .* .* ", cell.source), "prose in a code cell can't be translated"
        elif cell.kind is not None:
            assert cell.grade_id in {"explain", "explain_rubric"}


def test_the_lines_to_order_are_those_that_are_tested() -> None:
    master = read_master(ROOT / "source" / f"{ASSIGNMENT}.py")
    prompt = next(cell.source for cell in master.cells if cell.source.startswith("## 5"))
    shown = dict(re.findall(r"^([A-H])   (.*)$", prompt, re.MULTILINE))
    tested = dict(re.findall(r'^    "([A-H])": "(.*)",$', exercises()["order"][1].source, re.MULTILINE))
    assert shown == tested


def program() -> dict[int, str]:
    """The program of exercise 2, by line number."""
    master = read_master(ROOT / "source" / f"{ASSIGNMENT}.py")
    prompt = next(cell.source for cell in master.cells if cell.source.startswith("## 2"))
    return {int(number): line for number, line in re.findall(r"^(\d)   (.*)$", prompt, re.MULTILINE)}


def outcome(lines: Mapping[int, str]) -> str:
    """What comes of a program like exercise 2's: its gradient against that of the loss alone."""
    names: dict[str, Any] = {"torch": torch, "print": lambda *_: None}
    names |= {name: torch.tensor([0.3, 0.9, 2.0]) for name in "xy"} | {"w": torch.ones(3, requires_grad=True)}
    (want,) = torch.autograd.grad((torch.sigmoid(names["w"] * names["x"]) - names["y"]).pow(2).sum(), names["w"])
    try:
        exec("\n".join(lines.values()), names)  # noqa: S102  # the exercise's own lines
    except NameError:
        return "doesn't run"
    except RuntimeError:
        return "raises"
    came = names["w"].grad
    return "no gradient" if came is None else "right" if torch.allclose(came, want) else "silent"


def test_the_culprit_is_the_one_line_without_which_the_gradient_is_right() -> None:
    lines = program()
    assert outcome(lines) == "silent"
    without = {number: outcome({k: v for k, v in lines.items() if k != number}) for number in lines}
    assert [number for number, came in without.items() if came == "right"] == [6]
    assert outcome({**lines, 5: "shown = p.detach()"}) == "raises"


def test_the_release_is_what_nbgrader_makes_of_the_source(course: Path) -> None:
    """The same bytes as nbgrader's full command, which also writes the gradebook, except for the origin mark."""
    ours = nbformat.read(RELEASE, as_version=4)
    theirs = nbformat.read(course / "release" / "en" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", as_version=4)
    assert ours.cells == theirs.cells
