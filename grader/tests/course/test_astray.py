"""Work in a folder that nobody looks into: named with where it lies, a status that isn't 0, and never passed over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbjudge.course.layout import Course
from nbjudge.course.office.astray import astray
from nbjudge.errors import CourseError
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import nbgrader, python

KNOWN = {"05_views": {"views"}, "06_leaves": {"leaves"}}
ELSEWHERE = "there is no folder 05_views, but "


def lay(root: Path, *paths: str) -> Course:
    for path in paths:
        place = root / "submitted" / path
        (place if not place.suffix else place.parent).mkdir(parents=True, exist_ok=True)
        if place.suffix:
            place.write_text("{}")
    return Course(root=root, db_url="")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("dee/5_views/views.ipynb", ELSEWHERE + "5_views"),
        ("dee/05_Views/views.ipynb", ELSEWHERE + "05_Views"),
        ("dee/views.zip", ELSEWHERE + "views.zip"),
        ("dee/answer.ipynb", ELSEWHERE + "answer.ipynb"),
        ("dee/views.ipynb", "the notebook lies in submitted/dee; it belongs in submitted/dee/05_views"),
        ("dee/05_views/views.ipynb", None),
        ("dee/06_leaves/leaves.ipynb", None),
        ("dee/leaves.ipynb", None),  # told where 06_leaves is graded
        ("dee", None),
        ("dee/.ipynb_checkpoints/views.ipynb", None),
        (".git/x.ipynb", None),
    ],
)
def test_what_lies_elsewhere_is_told_and_other_assignments_aren_t(tmp_path: Path, path: str, why: str | None) -> None:
    assert dict(astray(lay(tmp_path, path), "05_views", KNOWN)).get("dee") == why


def test_only_those_who_are_asked_for_are_looked_at_and_many_names_are_counted(tmp_path: Path) -> None:
    course = lay(tmp_path, "dee/a", "dee/b", "dee/c", "dee/d", "dee/e", "eve/week1", "fay/05_views", "fay/x")
    assert list(astray(course, "05_views", KNOWN, ["d*"])) == [("dee", ELSEWHERE + "a, b, c, 2 more")]
    assert [student for student, _ in astray(course, "05_views", KNOWN)] == ["dee", "eve"]


def test_a_course_that_lays_students_into_assignments_has_no_folder_of_a_student_s(tmp_path: Path) -> None:
    lay(tmp_path, "05_views/ada/views.ipynb")
    course = Course(root=tmp_path, db_url="", structure="{nbgrader_step}/{assignment_id}/{student_id}")
    assert not list(astray(course, "05_views", KNOWN))


@pytest.mark.slow
def test_a_class_is_told_whom_nobody_looked_at(tmp_path: Path) -> None:
    root = small.make(tmp_path / "course")
    python(root, "-m", "nbjudge", "generate", small.NAME)
    where = root / "submitted"
    small.hand_in(root, "ada", small.RIGHT)
    os.renames(small.hand_in(root, "dee", small.RIGHT), where / "dee" / "5_small")
    for path in list(small.hand_in(root, "eve", small.RIGHT).iterdir()):
        path.rename(where / "eve" / path.name)
    (where / "eve" / small.NAME).rmdir()
    dee = "there is no folder small, but 5_small"
    eve = "the notebook lies in submitted/eve; it belongs in submitted/eve/small"
    said = python(root, "-m", "nbjudge", "autograde", small.NAME, status=1)
    assert f"not graded: {dee}" in said
    assert f"not graded: {eve}" in said
    assert "1 graded, 2 not graded" in said
    said = nbgrader(root, "autograde", small.NAME, status=1)
    assert f"2/3 dee: not graded: {dee}\n" in said
    assert f"3/3 eve: not graded: {eve}\n" in said
    assert eve in python(root, "-m", "nbjudge", "why", "eve", small.NAME, status=2)
    assert "graded are: ada" in python(root, "-m", "nbjudge", "why", "bo", small.NAME, status=2)
    assert dee in python(root, "-m", "nbjudge", "autograde", small.NAME, "--student", "dee", status=2)
    python(root, "-m", "nbjudge", "autograde", small.NAME, "--student", "ada")


def test_an_assignment_that_isn_t_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    for name in ("05_views", "06_leaves"):
        (tmp_path / "source" / name).mkdir(parents=True)
        (tmp_path / "source" / name / "a.ipynb").write_text("{}")
    course = Course(root=tmp_path, db_url="")
    said = [str(course.unknown(name, ["07_old"])) for name in ("05", "06_leafs", "zzz", "06_leaves")]
    has = "It has 05_views, 06_leaves, 07_old"
    assert said == [
        f"this course has no assignment '05'. Did you mean 05_views? {has}",
        f"this course has no assignment '06_leafs'. Did you mean 06_leaves? {has}",
        f"this course has no assignment 'zzz'. {has}",
        "the gradebook knows no assignment '06_leaves'; run `nbjudge generate 06_leaves` first",
    ]


def test_a_folder_that_is_no_course_s_says_so(tmp_path: Path) -> None:
    course = Course(root=tmp_path, db_url="")
    with pytest.raises(CourseError, match=r"there is no nbgrader_config\.py in .*: run this in the course's folder"):
        course.demand_there()
    (tmp_path / "source").mkdir()
    course.demand_there()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["generate x", "autograde x", "why ada x", "requests list", "attempts x"])
def test_a_command_that_needs_a_course_leaves_nothing_where_there_is_none(tmp_path: Path, command: str) -> None:
    said = python(tmp_path, "-m", "nbjudge", *command.split(), status=2)
    assert "run this in the course's folder" in said
    assert not list(tmp_path.iterdir())
