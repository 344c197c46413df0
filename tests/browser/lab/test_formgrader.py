"""formgrader's Autograde button, pressed in a browser, gives the scores of `nbjudge autograde`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from nbjudge_tests.classroom.commands import python
from tests.browser.lab.harness import Lab, Watched, running_lab
from tests.course.answer_files import ASSIGNMENT
from tools.evidence.demo_class import make_course

pytestmark = pytest.mark.browser

STUDENTS = ("ada", "dora")  # all right, partly wrong
GRADING_TIMEOUT_MS = 120_000
SCORES = """
import json, sys
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as book:
    print(json.dumps({s.student.id: s.score for s in book.assignment_submissions(sys.argv[1])}))
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("course") / "course"
    make_course(root)
    for folder in (root / "submitted").iterdir():
        if folder.name not in STUDENTS:
            shutil.rmtree(folder)
    return root


@pytest.fixture(scope="module")
def instructor(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(course, tmp_path_factory.mktemp("instructor")) as running:
        yield running


def scores(course: Path) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", "-c", SCORES, ASSIGNMENT]
    done = subprocess.run(
        command,
        cwd=course,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


@pytest.mark.whole  # the scripts that are served are read in test_exported
def test_a_student_without_a_name_is_called_by_the_id(instructor: Lab, watched: Watched) -> None:
    page = watched.page
    page.goto(f"{instructor.url}/lab?token={instructor.token}")
    for where in (f"manage_submissions/{ASSIGNMENT}", "manage_students"):
        page.goto(f"{instructor.url}/formgrader/{where}")
        expect(page.locator("tbody tr td:first-child")).to_have_text(list(STUDENTS))


@pytest.mark.whole
def test_the_button_grades_as_the_command_does(course: Path, instructor: Lab, watched: Watched) -> None:
    page = watched.page
    page.goto(f"{instructor.url}/lab?token={instructor.token}")  # logs in: formgrader's own pages don't
    page.goto(f"{instructor.url}/formgrader/manage_submissions/{ASSIGNMENT}")
    for student in STUDENTS:
        row = page.locator("tbody tr", has_text=student).first
        row.locator(".autograde a").click(timeout=20_000)
        dialog = page.locator(".modal:visible")
        expect(dialog).to_contain_text("Success", timeout=GRADING_TIMEOUT_MS)
        dialog.get_by_role("button", name="Close").last.click()
        expect(dialog).to_be_hidden()
        expect(row).to_contain_text("needs manual grading")  # one question is read by a person
    by_button = scores(course)
    python(course, "-m", "nbjudge", "autograde", ASSIGNMENT, "--force")
    assert by_button == scores(course)
    assert set(by_button) == set(STUDENTS)
    assert by_button["ada"] > by_button["dora"] > 0
    assert not watched.foreign_requests
