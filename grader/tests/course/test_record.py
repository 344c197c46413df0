"""The gradebook as nbgrader would have written it: read back through nbgrader's own classes."""

from __future__ import annotations

import csv
import json
import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy import text
from traitlets.config import Config

from nbjudge.course.exporters import GradesCsv
from nbjudge.course.gradebook import Record
from nbjudge.course.layout import Course
from nbjudge.course.office import tables
from nbjudge.course.office.standings import Stage, Standing
from nbjudge.errors import CourseError, GradebookError
from nbjudge.model import Ending, Graded, Outcome, Result, digest
from nbjudge.pages.desk import log_of_attempts
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


def test_an_unknown_assignment_is_told_with_those_that_there_are(record: Record) -> None:
    with pytest.raises(CourseError, match=r"this course has no assignment 'other'\. It has small$"):
        record.assignment("other", 5)


def test_a_missing_gradebook_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="nbjudge generate"):
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


def scored(course: Course, points: float) -> None:
    """A person scores ada's written answer, as formgrader does."""
    with Gradebook(course.db_url, course.course_id) as book:
        grade = book.find_grade("why", "writing", small.NAME, "ada")
        grade.manual_score, grade.needs_manual_grade = points, False
        book.db.commit()
    book.engine.dispose()


def answered(text: str | None, **fields: Any) -> Result:
    """ada's submission with that written answer; None: the grader failed and read nothing."""
    coding, writing = result(**fields).notebooks
    known = {} if text is None else {"why": digest(text)}
    return replace(result(**fields), notebooks=(coding, replace(writing, answers=known)))


@pytest.mark.parametrize(
    ("later", "waits"),
    [
        (["So."], False),  # graded again: neither answer nor question has changed
        (["So.", "So.", "So."], False),
        (["Because."], True),
        (["Because.", "So."], False),  # back to what was read
        (["Because.", "Because."], True),  # still nobody has read it
        ([None, "So."], False),
        ([None, "Because."], True),
        ([None], True),
    ],
)
def test_a_person_s_score_waits_only_where_they_haven_t_read_the_text(
    course: Course, record: Record, later: list[str | None], waits: bool
) -> None:
    record.write(answered("So."))
    scored(course, 3.0)
    for answer in later:
        record.write(answered(answer))
    assert grades(course)["why"] == (None, 3.0, waits)


def test_a_score_given_anew_is_for_the_text_that_is_there_then(course: Course, record: Record) -> None:
    record.write(answered("So."))
    scored(course, 3.0)
    record.write(answered("Because."))
    scored(course, 1.0)
    record.write(answered("Because."))
    assert grades(course)["why"] == (None, 1.0, False)
    record.write(answered("So."))
    assert grades(course)["why"] == (None, 1.0, True)


def test_a_score_for_what_could_not_be_read_waits_when_it_can(course: Course, record: Record) -> None:
    record.write(Result("k2", "ada", small.NAME, None, refusal="not JSON"))
    scored(course, 2.0)
    record.write(Result("k2", "ada", small.NAME, None, refusal="not JSON"))
    assert grades(course)["why"] == (None, 2.0, False)
    record.write(answered("So."))
    assert grades(course)["why"] == (None, 2.0, True)


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
        patched.setattr(tables, "apply", breaks)
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


def stock_penalty(course: Course, config: Config) -> float | None:
    """What nbgrader's own preprocessor makes of the same row: the oracle."""
    with Gradebook(course.db_url, course.course_id) as book:
        submission = book.find_submission(small.NAME, "ada")
        notebook = book.find_submission_notebook("coding", small.NAME, "ada")
        late = AssignLatePenalties(config=config)
        late.init_plugin()
        seconds, score = submission.total_seconds_late, notebook.score
        said = late.plugin_inst.late_submission_penalty("ada", score, seconds) if seconds > 0 else None
        found = None if said is None else float(late._check_late_penalty(notebook, said))
    book.engine.dispose()
    return found


def recorded_penalty(course: Course) -> float | None:
    with Gradebook(course.db_url, course.course_id) as book:
        found: float | None = book.find_submission_notebook("coding", small.NAME, "ada").late_submission_penalty
    book.engine.dispose()
    return found


def due(course: Course, date: str) -> None:
    with Gradebook(course.db_url, course.course_id) as book:
        book.update_or_create_assignment(small.NAME, duedate=date)
    book.engine.dispose()


ZERO = Config({"LateSubmissionPlugin": {"penalty_method": "zero"}})
LATE = "2026-02-02 10:00:00 UTC"


def test_a_moved_due_date_another_penalty_and_points_given_later_are_no_longer_settled(course: Course) -> None:
    handed_in = answered("So.", timestamp=LATE)
    due(course, "2026-02-01 00:00:00 UTC")
    with Record(course, ZERO) as record:
        record.write(handed_in)
        assert record.settled(handed_in)
    assert recorded_penalty(course) == stock_penalty(course, ZERO) == 2.5
    with Record(course, Config()) as record:
        assert not record.settled(handed_in)  # the method changed
    due(course, "2026-02-03 00:00:00 UTC")
    with Record(course, ZERO) as record:
        assert not record.settled(handed_in)  # the date did
        record.write(handed_in)
        assert record.settled(handed_in)
    assert recorded_penalty(course) == stock_penalty(course, ZERO) is None
    due(course, "2026-02-01 00:00:00 UTC")
    with Record(course, ZERO) as record:
        record.write(handed_in)
        scored(course, 3.0)
        assert not record.settled(handed_in)  # nbgrader takes off what there is: now there is more


def test_who_has_more_time_is_late_when_that_is_over(course: Course) -> None:
    due(course, "2026-02-01 00:00:00 UTC")
    with Record(course, ZERO) as record:
        record.write(answered("So.", timestamp=LATE))
        assert recorded_penalty(course) == 2.5
        record.extend("ada", small.NAME, datetime(2026, 2, 2, 12))
        assert recorded_penalty(course) == stock_penalty(course, ZERO) is None
        record.extend("ada", small.NAME, datetime(2026, 2, 2, 9))
        assert recorded_penalty(course) == stock_penalty(course, ZERO) == 2.5
        record.write(answered("So.", timestamp="2026-02-02 08:59:59 UTC"))
        assert recorded_penalty(course) is None
    due(course, "2026-02-02 00:00:00 UTC")  # the class gets a day: hers ends when it was said to
    with Record(course, ZERO) as record:
        record.write(answered("So.", timestamp="2026-02-02 08:59:59 UTC"))
        assert recorded_penalty(course) is None
        record.extend("ada", small.NAME, None)
        assert recorded_penalty(course) == stock_penalty(course, ZERO) == 2.5


def test_time_given_before_anything_is_handed_in_counts_then(course: Course, record: Record) -> None:
    due(course, "2026-02-01 00:00:00 UTC")
    with pytest.raises(CourseError, match="knows no student 'ada'"):
        record.extend("ada", small.NAME, datetime(2026, 2, 3))
    with Gradebook(course.db_url, course.course_id) as book:
        book.add_student("ada")
    book.engine.dispose()
    record.extend("ada", small.NAME, datetime(2026, 2, 3))
    assert record.extensions(small.NAME) == {"ada": datetime(2026, 2, 3)}
    assert record.standing("ada", small.NAME) == Standing("ada", small.NAME, handed_in=False)
    record.write(answered("So.", timestamp=LATE))
    with Gradebook(course.db_url, course.course_id) as book:
        assert book.find_submission(small.NAME, "ada").total_seconds_late == 0
    book.engine.dispose()


def test_points_that_a_person_gives_later_are_settled_wherever_totals_are_read(course: Course, tmp_path: Path) -> None:
    """No run comes between formgrader and an export: what is due is asked of the points there are now."""
    due(course, "2026-02-01 00:00:00 UTC")
    with Record(course, ZERO) as record:
        record.write(answered("So.", timestamp=LATE), "one")
        scored(course, 3.0)
        one = record.standing("ada", small.NAME)
        assert one is not None
        assert (one.raw_points, one.penalty, one.points) == (5.5, 5.5, 0.0)
        now = record.standing("ada", small.NAME, recorded=True)
        assert now is not None
        assert now.penalty == 2.5, "nothing is written by reading"
        assert log_of_attempts(record, small.NAME)[2].endswith("2.5/7         0, 5.5 points off for lateness")
        record.extend("ada", small.NAME, datetime(2026, 2, 3))
        assert [one.points for one in record.standings(small.NAME)] == [5.5]
        record.extend("ada", small.NAME, None)
    scored(course, 2.0)
    assert [row["score"] for row in exported(course, tmp_path / "grades.csv")] == ["0"]


def exported(course: Course, path: Path) -> list[dict[str, str]]:
    with Gradebook(course.db_url, course.course_id) as book:
        GradesCsv(to=str(path), config=ZERO).export(book)
    book.engine.dispose()
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_points_for_what_could_not_be_read_are_late_too(course: Course) -> None:
    due(course, "2026-02-01 00:00:00 UTC")
    refused = Result("k2", "ada", small.NAME, LATE, refusal="not JSON")
    with Record(course, ZERO) as record:
        record.write(refused)
        assert record.settled(refused)
        scored(course, 3.0)
        assert not record.settled(refused)
        record.write(refused)
        assert record.settled(refused)
        assert [one.points for one in record.standings(small.NAME, recorded=True)] == [0.0]


def test_there_is_nothing_to_extend_without_a_due_date(record: Record) -> None:
    record.write(result())
    with pytest.raises(CourseError, match="no due date"):
        record.extend("ada", small.NAME, datetime(2026, 2, 3))


def test_an_attempt_is_a_text(record: Record) -> None:
    record.write(result("k1", {"double_test": 0.0}), "one")
    record.write(result("k2", {"double_test": 1.0}), "one")  # the same text, with a mended test
    record.write(Result("k3", "ada", small.NAME, None, refusal="not JSON"), "two")
    record.write(result("k4", {"double_test": None}, timestamp=LATE), "three")
    found = [(one.number, one.content, one.points, one.handed_in) for one in record.attempts(small.NAME)]
    assert found == [(1, "one", 1.0, None), (2, "two", None, None), (3, "three", 0.0, datetime(2026, 2, 2, 10))]


def test_standings_are_what_nbgrader_adds_up(course: Course) -> None:
    due(course, "2026-02-01 00:00:00 UTC")
    with Record(course, ZERO) as record:
        record.write(answered("So.", timestamp=LATE))
        record.write(replace(result("k2"), student="bo"))
        scored(course, 3.0)
        found = {one.student: one for one in record.standings(small.NAME, recorded=True)}
    with Gradebook(course.db_url, course.course_id) as book:
        for student, one in found.items():
            submission = book.find_submission(small.NAME, student)
            assert (one.raw_points, one.timestamp) == (submission.score, submission.timestamp)
            assert sum(score.max_points for score in one.scores) == submission.max_score
            assert (one.state is Stage.WAITS) == submission.needs_manual_grade
            assert one.penalty == sum(book.late_submission_penalty or 0 for book in submission.notebooks)
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
