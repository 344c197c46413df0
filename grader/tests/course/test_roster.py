"""Who takes the course, read from what Canvas and Moodle export; and the requests for another look."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.plugins import ExportPlugin
from traitlets.config import Config

from nbjudge.__main__ import main
from nbjudge.course.exporters import CanvasCsv, MoodleCsv
from nbjudge.course.layout import Course, held_alone
from nbjudge.course.office.requests import Requests
from nbjudge.course.office.roster import Enrolled, read_roster
from nbjudge.errors import BusyError, CourseError
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import ENVIRONMENT

CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Small (771),Final Score
    Points Possible,,,,,12,(read only)
"Lovelace, Ada",101,S1,ada,Autumn,,
Bo van Dyke,102,S2,bo,Autumn,3,
"Nobody, Nick",103,S3,,Autumn,,
"Student, Test",104,,,Autumn,,
"""
MOODLE = """"First name";"Last name";"ID number";"Email address"
Ada;Lovelace;ada;ada@example.org
Cy;"O'Neil; Jr.";cy;
Di;"";di+x;di@example.org
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "roster.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_canvas(tmp_path: Path) -> None:
    found = read_roster(written(tmp_path, CANVAS))
    assert found.students == (
        Enrolled("ada", "Ada", "Lovelace", None, "101"),
        Enrolled("bo", "Bo van", "Dyke", None, "102"),
    )
    assert found.left_out == ("line 5: no id in 'SIS Login ID'",)
    assert found.titles == ("Small (771)",)
    assert [one.student for one in read_roster(written(tmp_path, CANVAS), "SIS User ID").students] == ["S1", "S2", "S3"]


def test_moodle(tmp_path: Path) -> None:
    found = read_roster(written(tmp_path, MOODLE))
    assert found.students == (
        Enrolled("ada", "Ada", "Lovelace", "ada@example.org"),
        Enrolled("cy", "Cy", "O'Neil; Jr.", None),
    )
    assert found.left_out == ("line 4: 'di+x' can't be an id: nbgrader's exchange separates by '+'",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "neither Canvas's columns"),
        ("", "neither Canvas's columns"),
        ("First name,Last name\nAda,L\n", "no column 'Username'"),
        ("First name,Username\nAda,x\nBo,x\n", "ids twice in 'Username': x"),
        (None, "can't be read"),
        ('First name,Username\nAda,a\n"Bo,b\nCy,c\nDi,d\n', "line 3 is damaged: .* a quote that nothing closes"),
        (f"First name,Username\nAda,{'x' * 140_000}\n", "line 2 is damaged: field larger than"),
        ("First name,Username,Username\nAda,a,zzz\n", "two columns 'Username'"),
    ],
)
def test_what_is_no_roster_is_told_why(text: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "gone.csv" if text is None else written(tmp_path, text)
    with pytest.raises(CourseError, match=said):
        read_roster(path)


def test_an_id_is_one_visible_line_and_so_is_a_name(tmp_path: Path) -> None:
    rows = ['Ada,"bob\n2 x"', '"Ada\n3 eve\x1b[2J",ada', f"{'A' * 129},long", f"Bo,{'b' * 129}", "Cy,c\u202ed"]
    found = read_roster(written(tmp_path, "\n".join(["First name,Username", *rows])))
    assert found.students == (Enrolled("ada", "Ada 3 eve", None, None),)
    assert [said.split(":")[0] for said in found.left_out] == ["line 3", "line 6", "line 7", "line 8"]
    assert all("\n" not in said for said in found.left_out)


@pytest.mark.parametrize("kind", ["pipe", "large", "folder"])
def test_a_roster_is_a_file_of_bounded_size(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate((64 << 20) + 1)
    with pytest.raises(CourseError, match=r"roster\.csv"):
        read_roster(path)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course whose gradebook knows ada, and one assignment with a due date."""
    root = small.make(tmp_path / "course")
    monkeypatch.setenv("PATH", ENVIRONMENT["PATH"])  # nbgrader makes a gradebook by alembic
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "autograd101") as book:
        book.add_student("ada", first_name="Augusta", email="a@example.org")
        book.add_student("zoe")
        book.add_assignment(small.NAME, duedate="2026-02-01 00:00:00 UTC")
        book.add_notebook("coding", small.NAME)
        book.add_grade_cell("double_test", "coding", small.NAME, max_score=2, cell_type="code")
        book.add_source_cell("double_test", "coding", small.NAME, cell_type="code", source="")
    book.engine.dispose()
    monkeypatch.chdir(root)
    return root


def students(root: Path) -> dict[str, tuple[str | None, ...]]:
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "autograd101") as book:
        found = {one.id: (one.first_name, one.last_name, one.email, one.lms_user_id) for one in book.students}
    book.engine.dispose()
    return found


def test_the_command_takes_over_what_is_said_and_keeps_the_rest(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roster", str(written(root, CANVAS))]) == 1  # somebody has no id
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"The gradebook as it was: {root / '.grader' / 'backups'}")
    assert said[1:] == [
        "Canvas: 2 students, 1 new, 1 changed",
        "ids by the column 'SIS Login ID', kept for the next roster and the exports",
        "new: bo",
        "changed: ada",
        "in the gradebook and not in the file (they stay): zoe",
        "left out: line 5: no id in 'SIS Login ID'",
        "Canvas calls its assignments (for c.CanvasCsv.titles): Small (771)",
    ]
    assert students(root) == {
        "ada": ("Ada", "Lovelace", "a@example.org", "101"),
        "bo": ("Bo van", "Dyke", None, "102"),
        "zoe": (None, None, None, None),
    }
    assert main(["roster", str(written(root, CANVAS)), "--no-backup"]) == 1
    assert "0 new, 0 changed" in capsys.readouterr().out
    assert len(list((root / ".grader" / "backups").iterdir())) == 1


def configure(root: Path, line: str) -> None:
    with (root / "nbgrader_config.py").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def test_the_export_s_column_is_the_roster_s(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(root, 'c.CanvasCsv.student_id = "SIS User ID"')
    assert main(["roster", str(written(root, CANVAS))]) == 0
    assert "new: S1, S2, S3" in capsys.readouterr().out
    configure(root, 'c.MoodleCsv.student_id = "Username"')
    assert main(["roster", str(written(root, MOODLE))]) == 2
    assert "no column 'Username'" in capsys.readouterr().err


def test_a_column_said_once_is_known_to_the_next_roster_and_the_exports(
    root: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["roster", str(written(root, CANVAS)), "--id", "SIS User ID"]) == 0
    assert main(["roster", str(written(root, CANVAS.replace("101", "111")))]) == 0
    assert "changed: S1" in capsys.readouterr().out
    assert exported(root, CanvasCsv, caplog) == ("SIS User ID", [])
    assert exported(root, CanvasCsv, caplog, student_id="ID") == (
        "ID",
        [
            "the newest roster had nbgrader's ids in 'SIS User ID', and this file has them under 'ID'; where that "
            "isn't meant, --CanvasCsv.student_id=COLUMN says another (ID, SIS User ID, SIS Login ID)"
        ],
    )
    assert (
        main(["roster", str(written(root, MOODLE.replace("cy;", "cy;cy@example.org"))), "--id", "Email address"]) == 0
    )
    where, (said,) = exported(root, MoodleCsv, caplog)
    assert where == "ID number"
    assert "ids in 'Email address', and this file has them under 'ID number'" in said


def exported(
    root: Path, exporter: type[ExportPlugin], caplog: pytest.LogCaptureFixture, **configured: str
) -> tuple[str, list[str]]:
    """The column that an export puts the ids in, and what it says of that."""
    caplog.clear()
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "autograd101") as book:
        asked = exporter(to=str(root / "out.csv"), config=Config({exporter.__name__: configured}))
        asked.export(book)
    book.engine.dispose()
    return asked.student_id, [said for said in caplog.messages if "newest roster" in said]


def test_a_roster_that_names_nobody_who_handed_in_brings_no_phantoms(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = students(root)
    for student in ("S1", "S9"):
        (root / "submitted" / student / small.NAME).mkdir(parents=True)
    assert main(["roster", str(written(root, CANVAS))]) == 2
    said = capsys.readouterr().err
    assert "its students are ada, bo by the column 'SIS Login ID', and S1, S9 handed in" in said
    assert "say --id COLUMN (the file has Student, ID, SIS User ID, SIS Login ID, Section" in said
    assert "`nbgrader db student remove ID`" in said
    assert students(root) == before
    assert not (root / ".grader" / "backups").exists()
    assert main(["roster", str(written(root, CANVAS)), "--id", "SIS User ID"]) == 0
    assert {"S1", "S2", "S3"} <= students(root).keys()
    assert main(["roster", str(written(root, CANVAS)), "--id", "SIS Login ID"]) == 1, "a person's word for it"


@pytest.mark.usefixtures("root")
def test_more_time_is_said_with_the_class_s_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extend", "ada", small.NAME, "2026-02-03 12:00 +0100"]) == 0
    said = capsys.readouterr().out.splitlines()[1:]
    assert said == [
        "ada has time for small until 2026-02-03 11:00 UTC (the class: 2026-02-01 00:00 UTC)",
        "No score moves.",
    ]
    assert main(["attempts", small.NAME]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "ada has time until 2026-02-03 11:00 UTC"
    assert main(["extend", "ada", small.NAME, "none"]) == 0
    assert "until 2026-02-01 00:00 UTC" in capsys.readouterr().out
    ends = [(text, "is no date") for text in ("0001-01-01 00:00 +0100", "9999-12-31 23:59 -0100")]
    for wrong, told in (("soon", "'soon' is no date"), ("none", "knows no student 'x'"), *ends):
        assert main(["extend", "x", small.NAME, wrong]) == 2
        assert told in capsys.readouterr().err


def test_requests_are_written_down_listed_and_answered(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["requests", "list"]) == 0
    assert capsys.readouterr().out == "No request is open.\n"
    assert main(["requests", "add", "ada", small.NAME, "4 is even", "--question", "double_test"]) == 0
    assert main(["requests", "add", "zoe", small.NAME, "please"]) == 0
    assert main(["requests", "close", "1", "you are right"]) == 0
    capsys.readouterr()
    assert main(["requests", "list"]) == 0
    assert [line.split()[:4] for line in capsys.readouterr().out.splitlines()[2:]] == [["2", "zoe", "small", "–"]]
    assert main(["requests", "list", "--all"]) == 0
    assert "4 is even → you are right (" in capsys.readouterr().out
    assert (root / ".grader" / "requests.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["close", "7", "no"], "request 7 does not exist"),
        (["add", "bob", small.NAME, "x"], "no student 'bob'"),
        (["add", "ada", "other", "x"], "no assignment 'other'"),
        (["add", "ada", small.NAME, "x", "--question", "q9"], "no question 'q9'; it has double_test"),
    ],
)
def test_a_request_for_what_is_not_there(
    arguments: list[str], said: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["requests", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not (root / ".grader" / "requests.json").exists()


def test_of_two_requests_at_once_none_is_lost(root: Path) -> None:
    course = Course(root, f"sqlite:///{root / 'gradebook.db'}")

    def ask(number: int) -> int:
        return Requests(course).add("ada", small.NAME, f"please {number}").number

    with ThreadPoolExecutor(8) as pool:
        numbers = sorted(pool.map(ask, range(24)))
    assert numbers == list(range(1, 25))
    assert len(Requests(course).all()) == 24


def test_one_who_writes_too_long_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    course = Course(root, f"sqlite:///{root / 'gradebook.db'}")
    monkeypatch.setattr("nbjudge.course.office.requests.WAIT_S", 0.1)
    with held_alone(course.state, "requests.lock"), pytest.raises(BusyError, match=f"process {os.getpid()} on "):
        Requests(course).add("ada", small.NAME, "please")


@pytest.mark.parametrize("arguments", [["extend", "ada", small.NAME, "none"], ["roster", "roster.csv"]], ids=" ".join)
def test_nobody_grades_while_time_or_names_are_changed(
    arguments: list[str], root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    written(root, CANVAS)
    before = (root / "gradebook.db").read_bytes()
    with held_alone(Course(root, "").state):
        assert main(arguments) == 2
    assert f"another grader is at work on this course: process {os.getpid()} on " in capsys.readouterr().err
    assert (root / "gradebook.db").read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["requests", "add", "ada", small.NAME, "caf\udce9"],
        ["requests", "add", "m\udcff", small.NAME, "please"],
        ["extend", "m\udcff", small.NAME, "none"],
        ["why", "ada", "m\udcff"],
        ["autograde", "m\udcff"],
    ],
)
def test_what_is_no_text_is_told_so(arguments: list[str], root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "is not text in UTF-8" in capsys.readouterr().err
    assert not (root / ".grader" / "requests.json").exists()


def test_a_damaged_list_is_named(root: Path) -> None:
    course = Course(root, f"sqlite:///{root / 'gradebook.db'}")
    (course.state / "requests.json").write_text(json.dumps([{"number": 1}]))
    with pytest.raises(CourseError, match=r"requests\.json is damaged"):
        Requests(course).all()
