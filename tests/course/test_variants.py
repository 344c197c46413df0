"""Two exercises draw each student's own numbers: literal answers count for whom they are right, and for nobody else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from nbjudge.course import intake
from nbjudge.course.gradebook import Record
from nbjudge.course.layout import Course
from nbjudge.grading import engine, questions, trial
from nbjudge.model import Limits, Outcome
from nbjudge_tests.classroom.commands import nbgrader
from nbjudge_tests.session import first_of
from seegrad.variants import variant
from tests.course.answer_files import ROOT
from tests.course.graded_class import hand_in as put

Graded = dict[str, Outcome]


def number(student: str) -> int:
    return variant(student, "03.predict_values", seed="autograd101").whole("k", 2, 9)


def part(student: str) -> int:
    return variant(student, "07.write_shrink", seed="autograd101").one_of("part", 2, 4, 8)


def values(student: str) -> str:
    """What this student writes down, as numbers."""
    k = number(student)
    return f"values = {{'A': {40 * k * k}, 'B': {40 * k}, 'C': 30, 'D': 3, 'E': {8 * k}, 'F': {k}}}"


def shrink(student: str) -> str:
    return f"def shrink(x):\n    while x.abs().max() > 1:\n        x = x / {part(student)}\n    return x"


EXERCISES = {
    "03_retain_grad_and_hooks": ("predict_values", values),
    "07_dynamic_graphs": ("write_shrink", shrink),
}


@pytest.fixture(scope="module", params=first_of(EXERCISES))
def graded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graded]:
    """What honest ones of both languages, and one with the answers of another, get."""
    name, root = request.param, tmp_path_factory.mktemp("variants")
    nbgrader_course(root, name)
    exercise, write = EXERCISES[name]
    other = next(who for who in ("bob", "cem", "dora", "eve", "finn") if write(who) != write("ada"))
    found = {}
    with Record(Course(root, f"sqlite:///{root / 'gradebook.db'}", "autograd101")) as record:
        assignment = record.assignment(name, 7)
    assignment = replace(assignment, limits=Limits(notebook_s=300))
    with trial.warm_judge(Limits(), trust_students=False) as run:
        for student, language, whose in (("ada", "en", "ada"), (other, "zh_CN", other), (f"{other}2", "en", "")):
            text = write(whose or next(who for who in ("ada", other) if write(who) != write(student)))
            released = nbformat.read(ROOT / "release" / language / name / f"{name}.ipynb", as_version=4)
            put(root, student, name, filled(released, exercise, text))
            read = intake.read(root / "submitted" / student / name, student, name)
            result = engine.grade(read, assignment, run, give_up=False)
            found[whose or "copy"] = next(one for one in result.outcomes if one.grade_id == f"{exercise}_test")
    return {"honest": {who: one for who, one in found.items() if who != "copy"}, "copy": {"copy": found["copy"]}}


def nbgrader_course(root: Path, name: str) -> None:
    (root / "source" / name).mkdir(parents=True)
    (root / "source" / name / f"{name}.ipynb").write_bytes((ROOT / "source" / name / f"{name}.ipynb").read_bytes())
    (root / "nbgrader_config.py").write_text("get_config().CourseDirectory.course_id = 'autograd101'\n")
    nbgrader(root, "generate_assignment", name)


def filled(released: Any, exercise: str, text: str) -> Any:
    for cell in released.cells:
        if cell.id == exercise:
            cell.source = text
    return released


def test_who_writes_their_own_numbers_gets_everything_in_both_languages(graded: dict[str, Graded]) -> None:
    for outcome in graded["honest"].values():
        assert outcome.points == outcome.max_points, outcome.message


def test_who_writes_somebody_else_s_doesn_t_and_is_told_by_their_own(graded: dict[str, Graded]) -> None:
    (outcome,) = graded["copy"].values()
    assert (outcome.points or 0) < outcome.max_points
    assert "Asked" in outcome.message


def test_the_reference_is_tried_with_every_kind_of_draw() -> None:
    names = [
        one.student
        for one in questions.drawn(intake.read(ROOT / "source" / "07_dynamic_graphs", "the reference answer", "07"))
    ]
    assert len(names) == questions.VARIANTS
    assert {part(who) for who in names} == {2, 4, 8}
    plain = intake.read(ROOT / "source" / "05_data_versus_detach", questions.REFERENCE, "05")
    assert questions.drawn(plain) == [plain]
