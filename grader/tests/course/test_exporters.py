"""What leaves for a spreadsheet, Canvas or Moodle: read back as those programs read it."""

from __future__ import annotations

import csv
import io
import logging
import re
import shutil
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbgrader.api import Gradebook

from nbjudge.course.exporters import BY_ID_ALONE, CURE, NO_NUMBER, NOT_ENROLLED, CanvasCsv, GradesCsv, MoodleCsv, table
from nbjudge.course.gradebook import Record
from nbjudge.course.layout import Course
from nbjudge.model import Result
from nbjudge.shown.text import printable
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import nbgrader
from nbjudge_tests.results import result

SCORES = {"double_test": 2.0, "area_test": 0.5}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """ada waits for a person, bo was refused, cy handed nothing in, dee is graded to the end."""
    root = small.make(tmp_path_factory.mktemp("export") / "course")
    nbgrader(root, "generate_assignment", small.NAME)
    course = Course(root, f"sqlite:///{root / 'gradebook.db'}", "autograd101")
    with Record(course) as record:
        record.write(result())
        record.write(Result("k2", "bo", small.NAME, None, refusal="not JSON"))
        record.write(replace(result("k3"), student="dee"))
    with Gradebook(course.db_url, course.course_id) as book:
        book.update_or_create_student("ada", first_name="Ada", last_name="=cmd|' /C calc'!A0", lms_user_id="101")
        book.update_or_create_student("cy", first_name="Cy", last_name='O"Neil, Jr.', email="+cy@example.org")
        for notebook in book.find_submission(small.NAME, "dee").notebooks:
            for grade in notebook.grades:
                grade.manual_score = 1.5 if grade.auto_score is None else None
                grade.needs_manual_grade = False
        book.db.commit()
    book.engine.dispose()
    return course


@pytest.fixture
def book(course: Course) -> Iterator[Gradebook]:
    with Gradebook(course.db_url, course.course_id) as book:
        yield book
    book.engine.dispose()


def read(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_nobody_who_could_not_be_graded_gets_a_zero(book: Gradebook, tmp_path: Path) -> None:
    GradesCsv(to=str(tmp_path / "grades.csv")).export(book)
    header, *rows = read(tmp_path / "grades.csv")
    found = {row[3]: dict(zip(header, row, strict=True)) for row in rows}
    assert {name: (row["score"], row["state"]) for name, row in found.items()} == {
        "ada": ("2.5", "waiting for a person"),
        "bo": ("", "not graded"),
        "cy": ("0", "not handed in"),
        "dee": ("7", "graded"),
    }
    assert found["ada"]["last_name"] == "'=cmd|' /C calc'!A0"
    assert (found["cy"]["last_name"], found["cy"]["email"]) == ('O"Neil, Jr.', "'+cy@example.org")
    assert {row["max_score"] for row in found.values()} == {"12"}


def test_canvas_gets_no_row_without_a_score(book: Gradebook, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A blank against a score is a change over there: 3 such cells can blank a class."""
    exporter = CanvasCsv(to=str(tmp_path / "c.csv"), section="Autumn")
    with said_by(exporter, caplog):
        exporter.export(book)
    assert read(tmp_path / "c.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "small"],
        ["    Points Possible", "", "", "", "", "12"],
        ["dee", "", "", "dee", "Autumn", "7"],
    ]
    assert caplog.messages == [
        NO_NUMBER % ("small", "small"),
        "ada is left out: small waiting for a person",
        "bo is left out: small not graded",
        "cy is left out: small not handed in",
        CURE.format(exporter="CanvasCsv"),
        BY_ID_ALONE % ("dee", "SIS Login ID"),
    ]


def test_canvas_s_titles_and_ids(book: Gradebook, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"titles": {"small": "Small, but fine (12345)", "smal": "x"}, "student_id": "SIS User ID"}
    exporter = CanvasCsv(to=str(tmp_path / "c.csv"), unfinished=True, **settings)
    with said_by(exporter, caplog):
        exporter.export(book)
    assert read(tmp_path / "c.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Small, but fine (12345)"],
        ["    Points Possible", "", "", "", "", "12"],
        ["'=cmd|' /C calc'!A0, Ada", "101", "ada", "", "", "2.5"],
        ["dee", "", "dee", "", "", "7"],
    ]
    assert "titles names 'smal', which is no assignment that is exported" in caplog.messages
    assert not [said for said in caplog.messages if "no number of Canvas's" in said]


def test_a_row_with_a_gap_is_left_out_and_so_is_an_assignment_without_scores(
    course: Course, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copy(course.root / "gradebook.db", tmp_path / "more.db")
    with Gradebook(f"sqlite:///{tmp_path / 'more.db'}", course.course_id) as book:
        for name in ("later", "other"):
            book.add_assignment(name)
            book.add_notebook("nb", name)
            book.add_grade_cell("q", "nb", name, max_score=3, cell_type="code")
        with book.db.no_autoflush:
            book.add_submission("other", "ada")
        grade = book.find_grade("q", "nb", "other", "ada")
        grade.auto_score, grade.needs_manual_grade = 2.0, False
        book.db.commit()
        exporter = MoodleCsv(to=str(tmp_path / "m.csv"), student=["ada", "dee"], student_id="Username")
        with said_by(exporter, caplog):
            exporter.export(book)
        assert read(tmp_path / "m.csv") == [
            [
                "First name",
                "Last name",
                "Username",
                "Email address",
                *(f"Assignment: {n} (Real)" for n in ("other", "small")),
            ]
        ]
        said = list(caplog.messages)
        one = MoodleCsv(to=str(tmp_path / "m.csv"), assignment=["other"])
        one.export(book)
        assert read(tmp_path / "m.csv")[1:] == [["Ada", "'=cmd|' /C calc'!A0", "ada", "", "2"]]
    book.engine.dispose()
    assert said == [
        "ada is left out: small waiting for a person; to export the others, take this one by itself: "
        """--assignment '["small"]' and the rest likewise""",
        "dee is left out: other not handed in; to export the others, take this one by itself: "
        """--assignment '["other"]' and the rest likewise""",
        "later is left out: nobody has a score that is final",
        CURE.format(exporter="MoodleCsv"),
    ]


@contextmanager
def said_by(exporter: Any, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What an exporter warns of."""
    exporter.log = logging.getLogger("exporter")
    with caplog.at_level(logging.WARNING, "exporter"):
        yield


def test_moodle_too_and_unfinished_ones_where_that_is_wanted(
    book: Gradebook, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = MoodleCsv(to=str(tmp_path / "m.csv"), unfinished=True)
    with said_by(exporter, caplog):
        exporter.export(book)
    assert CURE.format(exporter="MoodleCsv") not in caplog.messages, "it was taken"
    header, *rows = read(tmp_path / "m.csv")
    assert header == ["First name", "Last name", "ID number", "Email address", "Assignment: small (Real)"]
    assert {row[2]: row[4] for row in rows} == {"ada": "2.5", "dee": "7"}
    assert NOT_ENROLLED % ("dee", "ID number") in caplog.messages, "ada has a name"


def test_one_student_and_one_assignment(book: Gradebook, tmp_path: Path) -> None:
    GradesCsv(to=str(tmp_path / "g.csv"), student=["bo"], assignment=["small"]).export(book)
    assert [row[3] for row in read(tmp_path / "g.csv")[1:]] == ["bo"]
    GradesCsv(to=str(tmp_path / "g.csv"), assignment=["other"]).export(book)
    assert len(read(tmp_path / "g.csv")) == 1


NAMES = st.text(
    st.characters(codec="utf-8") | st.sampled_from("=+-@＝＋－＠﹦;,|\t\r\n\"' \xa0\u200b\ufeff\xad\u2028"), max_size=8
)
SEPARATORS = ",;|\t"


@given(st.lists(st.lists(NAMES, min_size=2, max_size=2), max_size=4))
def test_no_text_is_a_formula_wherever_a_program_splits_and_none_is_lost(rows: list[list[str]]) -> None:
    text = table(rows)
    for separator in SEPARATORS:
        cells = [cell for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) for cell in row]
        assert not [cell for cell in cells if begins(cell).startswith(("=", "+", "-", "@"))]
    read_back = list(csv.reader(io.StringIO(text, newline="")))
    pairs = [(was, now) for row, back in zip(rows, read_back, strict=True) for was, now in zip(row, back, strict=True)]
    for was, now in pairs:  # what no terminal may get, no file holds; one line each
        assert now.replace("'", "") == re.sub(r"[\t\n]", " ", printable(was)).replace("'", "")


def begins(cell: str) -> str:
    """As a spreadsheet in East Asia reads it, without what nobody sees and without a quote that it may take off."""
    plain = unicodedata.normalize("NFKC", cell)
    return "".join(letter for letter in plain if letter != '"' and unicodedata.category(letter)[0] not in "ZC")


def test_every_field_is_quoted() -> None:
    assert table([["Ada;=1+1", -2.5, None], ["＝1", "a|@b", "Ng, Ada"]]).splitlines() == [
        '"Ada;\'=1+1","-2.5",""',
        '"\'＝1","a|\'@b","Ng, Ada"',
    ]


@pytest.mark.slow
def test_nbgrader_s_own_command_uses_them(course: Course) -> None:
    nbgrader(course.root, "export", "--to", "a.csv")
    assert read(course.root / "a.csv")[0][-1] == "state"
    nbgrader(course.root, "export", "--exporter=nbjudge.course.exporters.CanvasCsv", "--to", "b.csv")
    assert read(course.root / "b.csv")[0][0] == "Student"
