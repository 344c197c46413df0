"""Each assignment proven: what is right gets everything, what is wrong is told why, an empty answer gets nothing.

One class an assignment is graded by nbgrader's own command through the real grader; the first stands for all, where not
everything is tested: `SEEGRAD_TEST_ALL=1 … -k NN_topic` selects one.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbgrader.utils import determine_grade

from nbjudge_tests.session import first_of, one_in
from seegrad.check import Expectation
from tests.course.answer_files import (
    EXERCISES,
    FOLDER,
    Answer,
    answers,
    assignments,
    before,
    by_hand,
    chosen,
    exercises,
    kind_of,
    master,
    prompt,
)
from tests.course.graded_class import Graded, answered, class_of, text_of
from tests.course.quick_checks import CODE, suggested
from tools.book import CourseFiles

NAMES = assignments()
Alone = Callable[[str], tuple[dict[str, Any], dict[str, Any]]]
KINDS = {"predict", "find", "repair", "write", "order", "explain"}
CHOICES = {"predict", "find"}  # one right answer, all wrong ones are there
MADE = {"09_own_engine"}  # what is made there goes wrong in ways that no misconception is behind
CLASSES = first_of(NAMES)  # that are graded: half a minute each
IN_A_KERNEL = one_in(5, NAMES)  # of its own, the instructor's notebook and the release
AUTOGRADED = [(name, exercise) for name in NAMES for exercise in exercises(name)]
ALL = [(name, str(cell.grade_id)) for name in NAMES for cell in master(name).cells if cell.kind in EXERCISES]
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", re.DOTALL)
SOLUTION = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.DOTALL)
HINTS = re.compile(
    r"<details><summary>Hint 1 of 3</summary>\n\n(?P<first>.+?)\n\n"
    r"<details><summary>Hint 2 of 3</summary>\n\n(?P<second>.+?)\n\n"
    r"<details><summary>Hint 3 of 3</summary>\n\n(?P<third>.+?)\n\n</details></details></details>",
    re.DOTALL,
)


def each(pairs: list[tuple[str, Any]]) -> Any:
    return pytest.mark.parametrize(("name", "exercise"), pairs, ids=lambda value: str(value))


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Graded]:
    """The class of an assignment, by name."""
    return class_of(lambda name: tmp_path_factory.mktemp(name))


@pytest.fixture
def graded(classes: Callable[[str], Graded], name: str) -> Graded:
    """The class of the assignment that a test is about."""
    return classes(name)


def points_of(name: str) -> dict[str, float]:
    return {exercise: float(test.points or 0) for exercise, (_, test) in exercises(name).items()}


# --- through the real grader -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "answer"),
    [(name, answer) for name in CLASSES for answer in chosen(name)],
    ids=str,
)
def test_each_answer_gets_what_it_deserves_and_is_told_why(graded: Graded, name: str, answer: Answer) -> None:
    points, feedback = graded.of(answer)
    full = points_of(name)[answer.cell]
    if answer.right:
        assert points == full, feedback
        return
    assert points is not None
    assert points < full
    assert answer.points is None or points == answer.points, feedback
    assert answer.misconception is None or answer.misconception in feedback
    assert answer.says in feedback


@pytest.mark.parametrize("name", CLASSES)
def test_the_instructor_s_own_answers_get_everything(graded: Graded, name: str) -> None:
    assert not graded.complaint
    by_machine = {f"{exercise}_test": points for exercise, points in points_of(name).items()}
    assert graded.points["source"] == {**by_machine, **dict.fromkeys(by_hand(name))}


@pytest.mark.parametrize("name", CLASSES)
def test_the_untouched_assignment_gets_nothing(graded: Graded) -> None:
    assert sum(points or 0 for points in graded.points["stub"].values()) == 0


@pytest.mark.parametrize("name", CLASSES)
def test_no_hidden_line_stands_in_any_feedback(graded: Graded, name: str) -> None:
    released = "\n".join(cell.source for cell in nbformat.read(release(name), as_version=4).cells)
    lines = {line.strip() for _, test in exercises(name).values() for line in region(test.source)}
    hidden = {line for line in lines if len(line) > 8 and line not in released}
    assert len(hidden) > 20
    assert graded.pages
    for student, page in graded.pages.items():
        text = text_of(page)
        assert not [line for line in hidden if line in text], student


@pytest.mark.parametrize("name", CLASSES)
def test_the_release_is_what_nbgrader_makes_of_the_source(graded: Graded, name: str) -> None:
    """The same cells as from nbgrader's full command, which also writes the gradebook."""
    theirs = graded.course / "release" / "en" / name / f"{name}.ipynb"
    assert nbformat.read(release(name), as_version=4).cells == nbformat.read(theirs, as_version=4).cells


def release(name: str) -> Path:
    return CourseFiles().release(name) / f"{name}.ipynb"


def region(source: str) -> list[str]:
    return [line for found in HIDDEN.findall(source) for line in found.splitlines()]


# --- the same cells in a learner's own kernel, as Validate and stock nbgrader run them --------------------------------


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """The instructor's notebook and the release of an assignment, by name, after a run in a learner's own kernel."""

    @functools.cache
    def ran(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        both = [nbformat.read(path, as_version=4) for path in (CourseFiles().source(name), release(name))]
        cells = run_in_one_kernel(joined(both), tmp_path_factory.mktemp(name))
        solved, stubs = (
            {cell.id: cells[f"{cell.id}-{number}"] for cell in made.cells} for number, made in enumerate(both)
        )
        return solved, stubs

    return ran


def joined(notebooks: Iterable[Any]) -> Any:
    """Notebooks one after the other, each from a clean start: a kernel's own costs seconds. Ids tell them apart."""
    every = nbformat.v4.new_notebook()
    for number, made in enumerate(notebooks):
        every.metadata = made.metadata
        every.cells.append(nbformat.v4.new_code_cell("%reset -f", id=f"reset-{number}"))
        every.cells += [nbformat.from_dict({**cell, "id": f"{cell.id}-{number}"}) for cell in made.cells]
    return every


def run_in_one_kernel(made: Any, folder: Path) -> dict[str, Any]:
    """The cells by id after an ordinary run, errors included."""
    options = {"kernel_name": "python3", "allow_errors": True, "extra_arguments": ["--log-level=ERROR"]}
    NotebookClient(made, resources={"metadata": {"path": str(folder)}}, **options).execute()
    return {cell.id: cell for cell in made.cells}


def errors(cell: Any) -> list[Any]:
    return [output for output in cell.get("outputs", ()) if output.output_type == "error"]


@pytest.mark.parametrize("name", IN_A_KERNEL)
def test_stock_nbgrader_reads_full_points_for_the_instructor_s_answers(alone: Alone, name: str) -> None:
    cells, _ = alone(name)
    assert not [error for cell in cells.values() for error in errors(cell)]
    assert {exercise: determine_grade(cells[f"{exercise}_test"]) for exercise in exercises(name)} == {
        exercise: (points, points) for exercise, points in points_of(name).items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", first_of(NAMES))
def test_stock_nbgrader_gives_every_answer_the_same_points(graded: Graded, name: str, tmp_path: Path) -> None:
    found = graded
    assert not found.complaint
    tests = {f"{exercise}_test" for exercise in exercises(name)}
    whole = {cell.id: cell.source for cell in nbformat.read(CourseFiles().source(name), as_version=4).cells}
    released = nbformat.read(release(name), as_version=4)
    for cell in released.cells:
        cell.source = whole[cell.id] if cell.id in tests else cell.source
    every = (answered(released, [answer for answer in row if answer]) for row in found.rows)
    cells = run_in_one_kernel(joined(every), tmp_path)
    both = {
        (test, number): (determine_grade(cell)[0], found.points[f"row{number:02}"][test])
        for number in range(len(found.rows))
        for test in tests
        if not writes_to_stderr(cell := cells[f"{test}-{number}"])  # that costs all points in stock nbgrader
    }
    assert len(both) > 0.9 * len(tests) * len(found.rows)
    assert {where: pair for where, pair in both.items() if pair[0] != pytest.approx(pair[1])} == {}


def writes_to_stderr(cell: Any) -> bool:
    return any(output.get("name") == "stderr" for output in cell.outputs)


@pytest.mark.parametrize("name", IN_A_KERNEL)
def test_stubs_fail_exactly_where_they_should_in_six_lines_without_a_traceback(alone: Alone, name: str) -> None:
    _, cells = alone(name)
    tests = {f"{exercise}_test" for exercise in exercises(name)}
    unanswered = {
        identity for identity, cell in cells.items() if re.search(r"^raise NotImplementedError", cell.source, re.M)
    }
    assert {identity for identity, cell in cells.items() if errors(cell)} == tests | unanswered
    for identity in tests:
        (error,) = errors(cells[identity])
        assert error.ename == "CheckFailed", error
        assert 3 <= len(error.traceback) <= 6
        assert error.traceback[0].startswith("Asked")


# --- the assignments themselves --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_there_are_five_to_seven_exercises_of_at_least_four_kinds_for_a_hundred_points(name: str) -> None:
    cells = master(name).cells
    found = [str(cell.grade_id) for cell in cells if cell.kind in EXERCISES]
    assert sum(cell.points or 0 for cell in cells) == 100
    assert 5 <= len(found) <= 7
    assert {kind_of(exercise) for exercise in found} <= KINDS
    assert len({kind_of(exercise) for exercise in found}) >= 4
    assert set(found) == exercises(name).keys() | by_hand(name).keys()


@pytest.mark.parametrize("name", NAMES)
def test_one_answer_is_graded_by_hand_with_a_rubric_that_adds_up(name: str) -> None:
    rubrics = {cell.grade_id: cell for cell in master(name).cells if cell.kind == "given"}
    assert [kind_of(exercise) for exercise in by_hand(name)] == ["explain"]
    for exercise, cell in by_hand(name).items():
        rubric = rubrics[f"{exercise}_rubric"]
        assert sum(map(int, re.findall(r"^\| (\d+) \|", rubric.source, re.MULTILINE))) == cell.points


@each(AUTOGRADED)
def test_each_test_has_a_visible_and_a_hidden_part(name: str, exercise: str) -> None:
    source = exercises(name)[exercise][1].source
    assert re.search(r"^(?!from ).*\b(expect|call|answers)\(", re.sub(HIDDEN, "", source), re.MULTILINE)
    assert len(region(source)) >= 5


@each(AUTOGRADED)
def test_each_exercise_has_its_wrong_and_right_answers(name: str, exercise: str) -> None:
    found = [answer for answer in answers(name) if answer.cell == exercise]
    right = [answer for answer in found if answer.right]
    wrong = [answer for answer in found if not answer.right]
    many = kind_of(exercise) in CODE
    assert len({answer.source for answer in wrong}) >= (15 if many else 5)
    causes = {answer.misconception or answer.says for answer in wrong} - {"", None}
    assert name in MADE or len(causes) >= 3
    assert len({answer.source for answer in right}) >= (8 if many else 1 if kind_of(exercise) in CHOICES else 3)


@pytest.mark.parametrize("name", NAMES)
def test_each_file_of_answers_belongs_to_an_exercise(name: str) -> None:
    assert {path.stem for path in (FOLDER / name).glob("*.toml")} == exercises(name).keys()
    assert {answer.cell for answer in answers(name)} == exercises(name).keys()


@each([(name, exercise) for name, exercise in AUTOGRADED if kind_of(exercise) in CHOICES])
def test_every_wrong_choice_is_among_the_answers(monkeypatch: pytest.MonkeyPatch, name: str, exercise: str) -> None:
    """What the visible part of the test offers by `one_of`, item by item; each is handed in alone."""
    offered: dict[str, list[Any]] = {}
    monkeypatch.setattr(Expectation, "one_of", lambda self, choices, *_: offered.__setitem__(self.asked, list(choices)))
    names = after_the_given_cells(name, exercise)
    right = dict(names)
    exec(re.sub(HIDDEN, "", exercises(name)[exercise][1].source), names)  # noqa: S102  # the course's own cell
    missing = {
        asked: {choice for choice in choices if choice != eval(asked, dict(right))}  # noqa: S307  # as above
        for asked, choices in offered.items()
    }
    for answer in answers(name):
        if answer.cell == exercise and not answer.right:
            given = dict(right)
            exec(answer.source, given)  # noqa: S102  # the same
            was = dict(right)
            changed = [asked for asked in offered if eval(asked, given) != eval(asked, was)]  # noqa: S307  # as above
            if len(changed) == 1:
                missing[changed[0]].discard(eval(changed[0], given))  # noqa: S307  # as above
    assert not {asked: choices for asked, choices in missing.items() if choices}


@each([(name, exercise) for name, exercise in AUTOGRADED if kind_of(exercise) not in CODE])
def test_a_wrong_choice_suggests_what_is_expected_of_it_or_nothing(name: str, exercise: str) -> None:
    """A misconception is told only where whoever has it gives just this answer: the answers' files say which."""
    for answer in answers(name):
        if answer.cell == exercise and not answer.right:
            told = suggested(name, answer)
            expected = (answer.misconception,) if answer.misconception else ()
            assert told == expected or len(told) > 1, (str(answer), told)  # several: where several choices are wrong


def after_the_given_cells(name: str, exercise: str) -> dict[str, Any]:
    """The names that the plain code cells above the exercise and its own solution leave behind."""
    names: dict[str, Any] = {}
    for cell in master(name).cells:
        if cell.cell_type == "code" and (cell.kind is None or cell.grade_id == exercise):
            exec(re.sub(r"^%.*$", "", cell.source, flags=re.MULTILINE), names)  # noqa: S102  # the course's own cells
        if cell.grade_id == exercise:
            break
    return names


@pytest.mark.parametrize("name", NAMES)
def test_prompts_are_plain_markdown_and_code_holds_no_sentence(name: str) -> None:
    for cell in master(name).cells:
        if cell.cell_type == "code":
            assert not re.search(r"#\s*[A-Z][a-z]+ .* .* ", cell.source), "prose in a code cell can't be translated"
        elif cell.kind is not None:
            assert cell.grade_id is not None
            assert cell.grade_id.removesuffix("_rubric") in by_hand(name)


# --- hints -----------------------------------------------------------------------------------------------------------


def hints(name: str, exercise: str) -> tuple[str, ...]:
    """The texts of the three hints, in one cell of their own between prompt and answer."""
    (cell,) = [cell for cell in before(name, exercise) if "<details>" in cell.source]
    assert cell.cell_type == "markdown"
    found = HINTS.fullmatch(cell.source)
    assert found, "three <details>, each within the one before: see CONTRIBUTING.md"
    return found.groups()


@each(ALL)
def test_each_exercise_has_three_hints_that_open_one_at_a_time(name: str, exercise: str) -> None:
    found = hints(name, exercise)
    assert len(set(found)) == 3
    for hint in found:
        assert "details" not in hint
        assert 4 <= len(re.findall(r"\w+", hint)) <= 60
    assert "?" in found[0], "the first is a question"


@each(ALL)
def test_no_hint_shows_the_answer(name: str, exercise: str) -> None:
    shown = re.sub(r"[\s`*]+", "", "".join(hints(name, exercise)))
    told = re.sub(
        r"[\s`*]+", "", "".join(cell.source for cell in before(name, exercise) if "<details>" not in cell.source)
    )
    for line in secrets(name, exercise):
        assert line not in shown or line in told, line


def bare(text: str) -> str:
    return re.sub(r"[\s`*]+", "", text)


def secrets(name: str, exercise: str) -> Iterator[str]:
    """What would be the answer, without blanks: the solution's lines, those of right answers, an order."""
    own = next(cell for cell in master(name).cells if cell.grade_id == exercise)
    solution = "\n".join(SOLUTION.findall(own.source)) or own.source
    given = {bare(line) for line in re.sub(SOLUTION, "", own.source).splitlines()}
    right = [answer.source for answer in answers(name) if answer.cell == exercise and answer.right]
    for line in "\n".join([solution, *right]).splitlines():
        value = line.partition(" = ")[2]  # of an answer that is a value, its value alone gives it away
        yield from (text for text in (bare(line), bare(value)) if len(text) > 14 and text not in given)
    if kind_of(exercise) == "order":
        tree = ast.parse("\n".join(right))
        yield from (
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )


@pytest.mark.parametrize("name", [name for name in NAMES if "order" in exercises(name)])
def test_the_lines_to_order_are_those_that_are_tested(name: str) -> None:
    shown = dict(re.findall(r"^([A-Z])   (.*)$", prompt(name, "order"), re.MULTILINE))
    tested = dict(re.findall(r'^    "([A-Z])": "(.*)",$', exercises(name)["order"][1].source, re.MULTILINE))
    assert shown == tested
    assert len(shown) >= 8
