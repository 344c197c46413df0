"""A run over a class: what is run again, what isn't, and what is said of it; the judge is a stand-in that counts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.batch import Entry, Options, autograde
from grader.course import Course
from grader.errors import CourseError, GradebookError
from grader.model import Assignment, Kind, Outcome, Run
from grader.record import Record
from tests.classroom import small
from tests.classroom.commands import nbgrader

ONE = Options(workers=1)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = small.make(tmp_path_factory.mktemp("batch") / "course")
    nbgrader(root, "generate_assignment", small.NAME)
    for student in ("ada", "bo", "cy"):
        small.hand_in(root, student, small.RIGHT, "2026-02-03 12:00:00 UTC")
    return root


@pytest.fixture
def course(generated: Path, tmp_path: Path) -> Course:
    shutil.copytree(generated, tmp_path / "course")
    return Course(tmp_path / "course", f"sqlite:///{tmp_path / 'course' / 'gradebook.db'}", "autograd101")


class Counting:
    """Passes every test; counts the coding notebooks, and remembers the seeds."""

    def __init__(self, kind: Kind = Kind.PASSED) -> None:
        self.kind = kind
        self.runs = 0
        self.seeds: set[int] = set()

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        yield self._judge

    def _judge(self, document: Mapping[str, Any], _files: Mapping[str, bytes], assignment: Assignment) -> Run:
        cells = [cell["metadata"].get("nbgrader", {}) for cell in document["cells"]]
        tests = [meta["grade_id"] for meta in cells if meta.get("grade") and not meta["solution"]]
        self.runs += bool(tests)
        self.seeds.add(assignment.seed)
        points = None if self.kind is Kind.GRADER_FAILURE else 1.0
        return Run(document, tuple(Outcome(name, self.kind, points, 1.0, "said") for name in tests))


def run(course: Course, judge: Counting, options: Options = ONE) -> dict[str, Entry]:
    return {entry.student: entry for entry in autograde(course, small.NAME, options, judge)}


def test_the_second_run_runs_and_records_nothing(course: Course) -> None:
    assert {(entry.problem, entry.unchanged) for entry in run(course, Counting()).values()} == {(None, False)}
    again = Counting()
    assert {(entry.problem, entry.unchanged) for entry in run(course, again).values()} == {(None, True)}
    assert again.runs == 0


def test_force_runs_all_again_and_a_new_seed_does_too(course: Course) -> None:
    first, forced, reseeded = Counting(), Counting(), Counting()
    run(course, first)
    run(course, forced, replace(ONE, force=True))
    run(course, reseeded, replace(ONE, new_seed=True))
    assert [judge.runs for judge in (first, forced, reseeded)] == [3, 3, 3]
    assert first.seeds == forced.seeds != reseeded.seeds


def test_only_who_handed_in_anew_is_run_again(course: Course) -> None:
    run(course, Counting())
    small.hand_in(course.root, "bo", small.PARTLY)
    judge = Counting()
    entries = run(course, judge)
    assert judge.runs == 1
    assert [entry.unchanged for entry in entries.values()] == [True, False, True]


def test_a_result_that_was_kept_but_not_recorded_is_recorded_without_running(course: Course) -> None:
    run(course, Counting())
    shutil.rmtree(course.root / "autograded" / "ada")
    judge = Counting()
    assert not run(course, judge)["ada"].unchanged
    assert judge.runs == 0
    assert (course.root / "autograded" / "ada" / small.NAME / "coding.ipynb").is_file()


def test_a_damaged_kept_result_is_run_again(course: Course) -> None:
    run(course, Counting())
    for path in (course.root / ".grader" / "results").glob("*.json"):
        path.write_text("{")
    judge = Counting()
    run(course, judge)
    assert judge.runs == 3


def test_our_own_failure_is_reported_recorded_as_ungraded_and_tried_again_next_time(course: Course) -> None:
    entries = run(course, Counting(Kind.GRADER_FAILURE))
    assert {entry.problem for entry in entries.values()} == {"grader failure: said"}
    healed = Counting()
    assert {entry.problem for entry in run(course, healed).values()} == {None}
    assert healed.runs == 3


def test_only_the_named_student(course: Course) -> None:
    assert set(run(course, Counting(), replace(ONE, students="a*"))) == {"ada"}
    assert set(run(course, Counting(), replace(ONE, excluded=frozenset({"ada"})))) == {"bo", "cy"}


def test_students_are_created_only_where_that_is_wanted(course: Course) -> None:
    entry = run(course, Counting(), replace(ONE, students="ada", create_students=False))["ada"]
    assert "no such student" in str(entry.problem)
    with Record(course) as record:
        assert not record.knows_student("ada")


def test_what_can_t_be_recorded_is_told_and_the_rest_goes_on(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Record.write

    def sometimes(record: Record, result: Any) -> None:
        if result.student == "bo":
            raise GradebookError("locked")
        write(record, result)

    monkeypatch.setattr(Record, "write", sometimes)
    problems = {student: entry.problem for student, entry in run(course, Counting()).items()}
    assert problems == {"ada": None, "bo": "not recorded: locked", "cy": None}


def test_the_autograded_folder_is_nbgrader_s_and_holds_nothing_of_an_earlier_submission(course: Course) -> None:
    folder = course.root / "submitted" / "ada" / small.NAME
    (folder / "old.txt").write_text("1")
    run(course, Counting())
    (folder / "old.txt").unlink()
    run(course, Counting())
    target = course.root / "autograded" / "ada" / small.NAME
    assert sorted(path.name for path in target.iterdir()) == ["coding.ipynb", "timestamp.txt", "writing.ipynb"]
    assert {path.stat().st_mode & 0o777 for path in target.iterdir()} == {0o444}
    assert [path.name for path in target.parent.iterdir()] == [small.NAME]


def test_a_refused_submission_leaves_a_notice_in_place_of_its_notebooks(course: Course) -> None:
    (course.root / "submitted" / "ada" / small.NAME / "coding.ipynb").write_text("{")
    entry = run(course, Counting())["ada"]
    assert str(entry.problem).startswith("refused: 'coding.ipynb' is not a notebook")
    notice = (course.root / "autograded" / "ada" / small.NAME / "coding.ipynb").read_text()
    assert "This submission could not be graded" in notice


@pytest.mark.parametrize("name", ["", "..", "a/b", "a*"])
def test_an_assignment_is_named_by_its_folder(course: Course, name: str) -> None:
    with pytest.raises(CourseError, match="name of its folder"):
        autograde(course, name, ONE, Counting())
