"""The command: what it prints and the status that it ends with."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nbjudge.__main__ import NOT_INSTALLED, main
from nbjudge.course.office.standings import Score, Standing
from nbjudge.grading.batch import Entry
from nbjudge.model import Ending, Graded, Outcome, Result
from nbjudge.pages.screen import ProgressBar, table
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import nbgrader, python

DONE = (
    Outcome("a", Ending.PASSED, 2.0, 2.0, claims=("requires_grad",)),
    Outcome("b", Ending.FAILED, 0.0, 1.0, claims=("is_leaf",)),
    Outcome("c", Ending.BY_HAND, None, 3.0),
)


def test_the_table_says_all_that_an_instructor_needs() -> None:
    graded = Graded("nb", "{}", DONE, died="the process ended with status 9", notes=("cell 'x' was put back",))
    entries = [
        Entry("ada", Result("k", "ada", "ps1", None, (graded,), wall_s=1.25)),
        Entry("carl", Result("k", "carl", "ps1", None, refusal="not JSON"), "refused: not JSON"),
    ]
    assert table(entries).splitlines() == [
        "student  score  questions                      remark",
        "-----------------------------------------------------",
        "ada      2/6    1 passed, 1 failed, 1 by hand  the process ended with status 9; cell 'x' was put back; "
        "1 question rests on the student's word (a), nothing has to be done",
        "carl     –                                     refused: not JSON",
        "",
        "1 graded, 1 refused; 1.2 s of work",
    ]


def test_after_the_totals_stands_what_a_person_has_to_read_and_where() -> None:
    entries = [
        Entry(name, Result("k", name, "ps1", None, (Graded("nb", "{}", DONE),)), standing=Standing(name, "ps1", scores))
        for name, scores in (("ada", (Score("nb", "c", None, None, 0.0, 3.0, waits=True),)), ("bo", ()))
    ]
    assert table(entries).splitlines()[-1] == (
        "1 answer waits for a person (c), to be scored in formgrader, Manual Grading, ps1. "
        "Nothing has failed there: it is a person's to judge. Then `nbgrader generate_feedback ps1` and "
        "`nbgrader export` have the scores too."
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_in_a_terminal_and_a_line_a_student_in_a_log(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    entry = Entry("ada", Result("k", "ada", "ps1", None, refusal="not JSON"), "refused: not JSON")
    with ProgressBar() as progress:
        for done in (1, 2):
            progress.show(entry, done, 2)
    if terminal:
        assert "100%" in screen.getvalue()
        assert "student/s" in screen.getvalue()
    else:
        assert screen.getvalue() == "1/2 ada: refused: not JSON\n2/2 ada: refused: not JSON\n"


def test_what_is_said_meanwhile_has_a_line_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()  # both streams are one window
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", screen)
    with ProgressBar() as progress:
        progress.show(Entry("ada", Result("k", "ada", "ps1", None)), 1, 2)
        progress.say("The gradebook as it was: here")
    shown = [line.rpartition("\r")[2].rstrip() for line in screen.getvalue().split("\n")]
    assert "The gradebook as it was: here" in shown


def test_a_remark_that_has_no_room_stands_below_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "60")
    why = "refused: 'nb.ipynb' is not a notebook: its JSON breaks off or is damaged at line 1, column 7"
    entries = [
        Entry("ada", Result("k", "ada", "ps1", None, refusal="not JSON"), "refused: not JSON"),
        Entry("kofi", Result("k", "kofi", "ps1", None, refusal=why), why),
    ]
    assert table(entries).splitlines()[2:6] == [
        "ada      –                 refused: not JSON",
        "kofi     –",
        "    refused: 'nb.ipynb' is not a notebook: its JSON breaks",
        "    off or is damaged at line 1, column 7",
    ]
    monkeypatch.setattr(sys, "stdout", io.StringIO())  # a file, a pipe: one line a student
    assert f"kofi     –                 {why}" in table(entries).splitlines()


@pytest.mark.parametrize("arguments", [[], ["autograde"], ["unknown", "x"]])
def test_a_wrong_call_is_told_how_to(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: nbjudge" in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_missing_is_named_with_the_command_that_makes_it(tmp_path: Path) -> None:
    root = small.make(tmp_path / "course")
    said = python(root, "-m", "nbjudge", "autograde", small.NAME, status=2)
    assert "run `nbjudge generate NAME`" in said
    assert "Traceback" not in said
    nbgrader(root, "generate_assignment", small.NAME)
    for command in ("autograde", "generate"):
        said = python(root, "-m", "nbjudge", command, "smal", status=2)
        assert said.endswith("nbjudge: this course has no assignment 'smal'. Did you mean small? It has small\n")
    assert "nobody handed anything in" in python(root, "-m", "nbjudge", "autograde", small.NAME, status=2)
    assert "its name has to be the name of its folder" in python(root, "-m", "nbjudge", "autograde", "../x", status=2)


@pytest.mark.slow
def test_the_doctor_names_the_walls(tmp_path: Path) -> None:
    said = python(tmp_path, "-m", "nbjudge", "doctor")
    assert "seccomp" in said
    assert "Enough for untrusted code." in said
    assert f"no course: there is no nbgrader_config.py in {tmp_path}" in said


@pytest.mark.slow
def test_the_doctor_says_what_a_course_lacks_and_what_makes_it(tmp_path: Path) -> None:
    root = small.make(tmp_path / "course")
    written = (root / "source").rename(tmp_path / "source")
    said = python(root, "-m", "nbjudge", "doctor")
    assert "write source/NAME/NAME.ipynb" in said
    assert "then `nbjudge generate NAME`.\n" in said
    written.rename(root / "source")
    told = "There is no gradebook yet: `nbjudge generate small` makes it, and what students get."
    assert f"{told}\n" in python(root, "-m", "nbjudge", "doctor")
    (root / "gradebook.db").touch()
    assert told not in python(root, "-m", "nbjudge", "doctor")


@pytest.mark.slow
def test_a_course_that_nbgrader_s_own_grader_would_grade_is_told_the_lines_that_lack(tmp_path: Path) -> None:
    root = small.make(tmp_path / "course")
    config = root / "nbgrader_config.py"
    config.unlink()
    lines = [line.strip() for line in NOT_INSTALLED.splitlines()[-4:] if line]
    for command in (["generate", small.NAME], ["doctor"]):
        said = python(root, "-m", "nbjudge", *command)
        assert NOT_INSTALLED in said
    config.write_text("c = get_config()\n", encoding="utf-8")
    assert NOT_INSTALLED in python(root, "-m", "nbjudge", "doctor")
    config.write_text("\n".join([*lines, 'c.SandboxedAutograde.prove = "off"']), encoding="utf-8")
    for command in (["generate", small.NAME], ["doctor"]):
        assert "install" not in python(root, "-m", "nbjudge", *command)
    assert "install" not in python(tmp_path, "-m", "nbjudge", "doctor"), "no course, nothing to grade"


def test_all_settings_are_told_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings"]) == 0
    said = capsys.readouterr().out
    for line in (
        "c.SandboxedAutograde.max_cell_s = 30.0",
        "c.SandboxedAutograde.preload = []",
        "c.FeedbackPages.hold_back = True",
        "c.CanvasCsv.titles = {}",
        "c.MoodleCsv.unfinished = False",
        "c.Passback.client_id = ''",
    ):
        assert f"{line}\n" in said
    assert "Undefined" not in said
    assert "= <" not in said, "an object of Python's says nothing"


def test_a_reader_who_has_read_enough_stops_nothing() -> None:
    read, write = os.pipe()
    os.close(read)  # as `| head` leaves it
    with os.fdopen(write, "wb") as nobody:
        command = [sys.executable, "-m", "nbjudge", "settings"]
        done = subprocess.run(command, stdout=nobody, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
