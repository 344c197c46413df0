"""The gradebook as nbgrader would have written it: read back through nbgrader's own classes."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from sqlalchemy import text
from traitlets.config import Config

from nbjudge.course.gradebook import Record
from nbjudge.course.layout import Course
from nbjudge.errors import CourseError, GradebookError
from nbjudge.model import Ending, Graded, Outcome, Result
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import nbgrader
from nbjudge_tests.databases import Database, Sqlite
from nbjudge_tests.results import grades, result


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory, database: Database) -> Course:
    root = tmp_path_factory.mktemp("record") / "course"
    url = database.fresh(root)
    nbgrader(small.make(root, url), "generate_assignment", small.NAME)
    return Course(root, url, "autograd101")


@pytest.fixture
def course(generated: Course, tmp_path: Path, database: Database) -> Course:
    shutil.copytree(generated.root, tmp_path / "course")
    return replace(generated, root=tmp_path / "course", db_url=database.copy(generated.db_url, tmp_path / "course"))


@pytest.fixture
def record(course: Course) -> Iterator[Record]:
    with Record(course) as record:
        yield record


def test_an_assignment_is_read_as_nbgrader_keeps_it(record: Record) -> None:
    assignment = record.assignment(small.NAME, 5)
    coding, writing = assignment.notebooks
    assert [cell.grade_id for cell in coding.cells] == ["setup", "double", "double_test", "area", "area_test"]
    test = coding.cells[2]
    assert (test.points, test.grade, test.solution, test.locked) == (2.0, True, False, True)
    assert "BEGIN HIDDEN TESTS" in test.source
    assert [(cell.grade_id, cell.task, cell.solution) for cell in writing.cells] == [
        ("why", False, True),
        ("sketch", False, True),
        ("draw", True, False),
    ]


def test_data_beside_the_source_belongs_to_the_assignment(course: Course, record: Record) -> None:
    (course.root / "source" / small.NAME / "data.csv").write_text("1,2")
    (course.root / "source" / small.NAME / "__pycache__").mkdir()
    (course.root / "source" / small.NAME / "__pycache__" / "x.bin").write_text("no")
    assert record.assignment(small.NAME, 5).files == {"data.csv": b"1,2"}


def test_an_unknown_assignment_names_the_command_that_is_missing(record: Record) -> None:
    with pytest.raises(CourseError, match="nbgrader generate_assignment other"):
        record.assignment("other", 5)


def test_a_missing_gradebook_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="generate_assignment"):
        Record(Course(tmp_path, f"sqlite:///{tmp_path / 'gradebook.db'}"))
    assert not list(tmp_path.iterdir())


def test_scores_and_what_waits_for_a_person(course: Course, record: Record) -> None:
    record.write(result())
    found = grades(course)
    assert found["double_test"] == (2.0, None, False)
    assert found["area_test"] == (0.5, None, False)
    assert found["why"] == (None, None, True)
    assert record.applied(small.NAME) == {"ada": "k1"}


def test_a_question_that_the_grader_failed_on_is_never_zero(course: Course, record: Record) -> None:
    record.write(result(scores={"double_test": None, "area_test": 1.0}))
    assert grades(course)["double_test"] == (None, None, True)


def test_a_resubmission_resets_scores_and_keeps_what_a_person_wrote(course: Course, record: Record) -> None:
    record.write(result())
    with Gradebook(course.db_url, course.course_id) as book:
        grade = book.find_grade("why", "writing", small.NAME, "ada")
        grade.manual_score, grade.needs_manual_grade = 3.0, False
        book.db.commit()
    book.engine.dispose()
    record.write(result("k2", {"double_test": 0.0}))
    found = grades(course)
    assert found["double_test"] == (0.0, None, False)
    assert found["area_test"] == (None, None, True)
    assert found["why"] == (None, 3.0, True)


def test_a_refused_submission_is_seen_and_inherits_no_points(course: Course, record: Record) -> None:
    record.write(result())
    record.write(Result("k2", "ada", small.NAME, None, refusal="not JSON"))
    assert {(auto, waits) for auto, _, waits in grades(course).values()} == {(None, True)}


def test_a_missing_notebook_among_others_is_zero_as_in_nbgrader(course: Course, record: Record) -> None:
    lost = Graded("coding", "", (Outcome("double_test", Ending.NOT_ANSWERED, 0.0, 2.0),), missing=True)
    record.write(replace(result(), notebooks=(lost,)))
    assert grades(course)["double_test"] == (0.0, None, False)


def test_all_or_nothing(course: Course, record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    record.write(result())
    before = grades(course)

    def breaks(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(record, "_remember", breaks)
        with pytest.raises(KeyboardInterrupt):
            record.write(result("k2", {"double_test": 0.0, "area_test": 0.0}))
    assert grades(course) == before
    assert record.applied(small.NAME) == {"ada": "k1"}


def test_a_broken_gradebook_is_told_in_a_sentence(course: Course, database: Database) -> None:
    if not isinstance(database, Sqlite):
        pytest.skip("a file is what breaks like this")
    (course.root / "gradebook.db").write_bytes(b"not a database, but long enough to be looked at" * 50)
    with pytest.raises(GradebookError, match="db upgrade"):
        Record(course)


@pytest.mark.parametrize(("method", "penalty"), [("none", None), ("zero", 2.5)])
def test_lateness_is_nbgrader_s_business(course: Course, method: str, penalty: float | None) -> None:
    with Gradebook(course.db_url, course.course_id) as book:
        book.update_or_create_assignment(small.NAME, duedate="2026-02-01 00:00:00 UTC")
    book.engine.dispose()
    config = Config({"LateSubmissionPlugin": {"penalty_method": method}})
    with Record(course, config) as record:
        record.write(result(timestamp="2026-02-02 10:00:00 UTC"))
    with Gradebook(course.db_url, course.course_id) as book:
        notebook = book.find_submission_notebook("coding", small.NAME, "ada")
        assert notebook.late_submission_penalty == penalty
        assert str(notebook.assignment.timestamp) == "2026-02-02 10:00:00"
    book.engine.dispose()


def test_the_seed_is_drawn_once_and_kept_from_others(course: Course) -> None:
    first = course.seed(small.NAME)
    assert course.seed(small.NAME) == first
    assert course.seed("other") != first
    assert course.seed(small.NAME, new=True) != first
    path = course.root / ".grader" / f"{small.NAME}.seed"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.write_text("x")
    with pytest.raises(CourseError, match="--new-seed"):
        course.seed(small.NAME)


def test_a_result_goes_to_json_and_back() -> None:
    original = result(refusal=None, wall_s=1.5)
    assert Result.from_json(json.loads(json.dumps(original.to_json()))) == original


def test_a_gradebook_of_an_older_nbgrader_is_named_with_its_remedy(course: Course) -> None:
    with Gradebook(course.db_url, course.course_id) as book:
        book.db.execute(text("ALTER TABLE grade DROP COLUMN extra_credit"))
        book.db.commit()
    book.engine.dispose()
    with pytest.raises(GradebookError, match="nbgrader db upgrade"), Record(course) as record:
        record.write(result())
