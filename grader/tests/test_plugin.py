"""One small class graded by stock nbgrader, by our `nbgrader autograde`, by formgrader's call, by our own command."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import nbformat
import nbgrader.apps.api
import nbgrader.apps.autogradeapp
import nbgrader.apps.generatefeedbackapp
import nbgrader.apps.validateapp
import nbgrader.server_extensions.formgrader.formgrader as formgrader
import pytest
from nbconvert.exporters import HTMLExporter
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import notebook_hash
from playwright.sync_api import Browser
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from nbjudge.course.gradebook import Record
from nbjudge.course.layout import Course
from nbjudge.course.restore import released
from nbjudge.plugin import SandboxedAutograde, install
from nbjudge_tests.classroom import commands, small
from nbjudge_tests.classroom.commands import ENVIRONMENT, python
from nbjudge_tests.classroom.gradebook import Rows, rows
from nbjudge_tests.classroom.roster import ALERT, adding

HONEST = {"nora": small.NOTHING, "petra": small.PARTLY, "rami": small.RIGHT}
STOCK = "get_config().CourseDirectory.course_id = 'autograd101'"
BESIDE = ("timestamp.txt", "submission_secret.txt", ".made_of")  # what nbgrader's release reads, and we
FORMGRADER = """
from nbgrader.apps.nbgraderapp import NbGraderApp
from nbgrader.apps.api import NbGraderAPI
app = NbGraderApp()
app.load_config_file()
api = NbGraderAPI(config=app.config)
done = api.autograde({name!r}, {student!r})
assert done["success"], done
"""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course with its three honest students; each test grades a copy."""
    root = small.make(tmp_path_factory.mktemp("plugin") / "course")
    commands.nbgrader(root, "generate_assignment", small.NAME)
    for student, answers in HONEST.items():
        small.hand_in(root, student, answers, "2026-02-03 12:00:00 UTC")
    return root


def copied(generated: Path, to: Path) -> Path:
    shutil.copytree(generated, to)
    return to


@pytest.fixture(scope="module")
def stock(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """What nbgrader itself makes of the honest ones."""
    root = copied(generated, tmp_path_factory.mktemp("stock") / "course")
    (root / "nbgrader_config.py").write_text(STOCK)
    commands.nbgrader(root, "autograde", small.NAME, "--Execute.shutdown_kernel=immediate")
    return rows(root)


@pytest.fixture(scope="module")
def ours(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The class with three more, graded by `nbgrader autograde`, which has to say that not all were."""
    root = copied(generated, tmp_path_factory.mktemp("ours") / "course")
    hostile(root)
    (small.hand_in(root, "carl", small.RIGHT) / "coding.ipynb").write_text('{"cells": [')
    (root / "submitted" / "dina" / small.NAME).mkdir(parents=True)
    twice = small.hand_in(root, "tara", small.RIGHT) / "coding.ipynb"
    book = json.loads(twice.read_text())
    book["cells"] += [{**cell, "id": f"copy{index}"} for index, cell in enumerate(book["cells"])]
    twice.write_text(json.dumps(book))
    spying(root)
    said = commands.nbgrader(root, "autograde", small.NAME, status=1)
    assert "carl: refused: 'coding.ipynb' is not a notebook" in said
    assert "dina: refused: the notebook" in said
    commands.nbgrader(root, "generate_feedback", small.NAME)
    return root


def hostile(root: Path) -> None:
    """Right answers, and every way known to us to put a script into a page."""
    path = small.hand_in(root, "xena", small.PARTLY) / "coding.ipynb"
    source = f"""
from IPython.display import HTML, SVG, Javascript, Latex, Markdown, display
display(HTML({ALERT!r}), HTML("<img src=x onerror='window.stolen=1'>"), Javascript("window.stolen = 1"))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='window.stolen=1'><script>window.stolen=1</script></svg>"))
display(Markdown({ALERT!r}), HTML("<iframe srcdoc='{ALERT}'></iframe><a href='javascript:window.stolen=1'>x</a>"))
display({{"image/png": '"><script>window.stolen=1</script>'}}, raw=True)
print({ALERT!r})
raise ValueError({ALERT!r})
"""
    made = adding(nbformat.read(path, as_version=4), "double", source)
    made.cells.append(nbformat.v4.new_markdown_cell(f"{ALERT} <svg onload='window.stolen=1'> [x](javascript:stolen)"))
    made.cells.append(nbformat.v4.new_raw_cell(ALERT))
    nbformat.write(made, path)


def spying(root: Path) -> None:
    """An answer that remembers what it was asked, tells it later, and hands in a page of its own."""
    answers = {"double": "asked = []\ndef double(x):\n    asked.append(x)\n    return x + x"}
    answers["area"] = "def area(a, b): raise ValueError(f'asked {asked}')"
    folder = small.hand_in(root, "spy", answers, "2026-02-03 12:00:00 UTC")
    book = nbformat.read(folder / "coding.ipynb", as_version=4)
    book.cells.append(nbformat.v4.new_code_cell("print('remembered', asked)"))
    nbformat.write(book, folder / "coding.ipynb")
    (folder / "coding.html").write_text("mine")
    (folder / "coding.html").chmod(0o444)


def test_formgrader_s_own_view_of_a_submission_is_cleaned_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """formgrader makes its pages by what `install` puts in the place of its HTMLExporter."""
    for module in (nbgrader.apps.api, nbgrader.apps.autogradeapp):
        monkeypatch.setattr(module, "Autograde", None)
    for module in (nbgrader.apps.api, nbgrader.apps.generatefeedbackapp):
        monkeypatch.setattr(module, "GenerateFeedback", None)
    monkeypatch.setattr(formgrader, "HTMLExporter", None)
    monkeypatch.setattr(nbgrader.apps.validateapp, "Validator", None)
    config = Config()
    install(config)
    html = {"output_type": "display_data", "data": {"text/html": f"seen{ALERT}"}, "metadata": {}}
    cells = [
        nbformat.v4.new_markdown_cell(f"written{ALERT}"),
        nbformat.v4.new_raw_cell(ALERT),
        nbformat.v4.new_code_cell("1", outputs=[nbformat.from_dict(html)]),
    ]
    page, _ = formgrader.HTMLExporter(config=config, template_name="classic").from_notebook_node(
        nbformat.v4.new_notebook(cells=cells)
    )
    assert "written" in page
    assert "seen" in page
    assert "<script>window.stolen" not in page


@pytest.mark.slow
def test_validate_says_what_it_has_seen_and_what_comes_later(generated: Path, tmp_path: Path) -> None:
    right = generated / "submitted" / "petra" / small.NAME  # right in the open, wrong where it is hidden
    book = nbformat.read(right / "coding.ipynb", as_version=4)
    book.cells = [*book.cells[:4], nbformat.v4.new_code_cell(f"open({str(tmp_path / 'written')!r}, 'w').close()")]
    nbformat.write(book, tmp_path / "double.ipynb")
    said = " ".join(commands.nbgrader(generated, "validate", str(tmp_path / "double.ipynb")).split())
    assert "The visible tests pass: 1 question, worth 2 points. Hidden tests, which may ask for more, run when" in said
    assert (tmp_path / "written").exists()  # with the caller's rights, as SECURITY.md says
    book = nbformat.read(generated / "submitted" / "rami" / small.NAME / "writing.ipynb", as_version=4)
    book.cells = [cell for cell in book.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "why"]
    nbformat.write(book, tmp_path / "why.ipynb")
    said = " ".join(commands.nbgrader(generated, "validate", str(tmp_path / "why.ipynb")).split())
    assert "a person reads 1 answer, worth 3 points." in said
    stub = generated / "submitted" / "nora" / small.NAME / "coding.ipynb"
    assert "VALIDATION FAILED" in commands.nbgrader(generated, "validate", str(stub))
    book = nbformat.read(generated / "source" / small.NAME / "coding.ipynb", as_version=4)
    book.cells = book.cells[:4]
    book.cells[3].source += "\nif isinstance(double(2), int):\n    assert double(2) == 4"
    for text, told in ((book.cells[3].source, True), (released(book.cells[3].source), False)):
        book.cells[3].source, book.cells[2].source = text, "def double(x): return 2 * x"
        nbformat.write(book, tmp_path / "own.ipynb")
        said = " ".join(commands.nbgrader(generated, "validate", str(tmp_path / "own.ipynb")).split())
        assert ("cell 'double_test', line 7: an answer that goes another way at line 6 than yours" in said) is told


def configuration() -> Config:
    return PyFileConfigLoader("nbgrader_config.py", str(small.ROOT)).load_config()


def test_the_configuration_plugs_the_grader_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nbgrader.apps.api, "Autograde", None)
    monkeypatch.setattr(nbgrader.apps.autogradeapp, "Autograde", None)
    config = configuration()
    assert config.CourseDirectory.root == str(small.ROOT)
    assert nbgrader.apps.api.Autograde is nbgrader.apps.autogradeapp.Autograde is SandboxedAutograde


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-02-03 13:00:00+01:00", datetime(2026, 2, 3, 12)),
        ("garbage", None),
        ("", None),
        ("00:00999999999999999999999999999912:00:00 +", None),
        (None, None),  # a pipe, which nobody writes to
    ],
)
def test_no_timestamp_stops_a_page_or_a_command_of_nbgrader_s(
    text: str | None, expected: datetime | None, tmp_path: Path
) -> None:
    coursedir = CourseDirectory(config=configuration(), root=str(tmp_path))
    folder = tmp_path / "submitted" / "ada" / small.NAME
    folder.mkdir(parents=True)
    if text is None:
        os.mkfifo(folder / "timestamp.txt")
    else:
        (folder / "timestamp.txt").write_text(text)
    assert coursedir.get_existing_timestamp(str(folder)) == expected
    assert NbGraderAPI(coursedir).get_submitted_timestamp(small.NAME, "ada") == expected


def test_without_the_grader_nbgrader_s_own_autograder_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Falling back to it would run the tests inside the students' processes, and nobody would notice."""
    monkeypatch.setitem(sys.modules, "nbjudge.plugin", None)
    (step,) = configuration().Autograde.sanitize_preprocessors
    with pytest.raises(ImportError):
        HTMLExporter().register_preprocessor(step)


@pytest.mark.slow
def test_the_same_rows_as_stock_nbgrader(stock: Rows, ours: Path) -> None:
    graded = {where: row for where, row in rows(ours).items() if where[0] in HONEST}
    assert graded == stock


@pytest.mark.slow
def test_those_that_could_not_be_graded_stand_in_the_gradebook_without_points(ours: Path) -> None:
    found = rows(ours)
    for student in ("carl", "dina"):
        assert found[student, ""][1:] == (0.0, True)
        assert found[student, "double_test"][0] is None


@pytest.mark.slow
def test_copied_cells_cost_nothing(ours: Path) -> None:
    found = rows(ours)
    assert found["tara", "double_test"] == found["rami", "double_test"]
    assert found["tara", "area_test"] == found["rami", "area_test"]


@pytest.mark.whole  # on a hub it is pressed, and the API is the command's
def test_formgrader_s_button_gives_the_same_scores(generated: Path, ours: Path, tmp_path: Path) -> None:
    root = copied(generated, tmp_path / "course")
    python(root, "-c", FORMGRADER.format(student="petra", name=small.NAME))
    assert rows(root) == {where: row for where, row in rows(ours).items() if where[0] == "petra"}


@pytest.mark.whole  # a killed run, which is our command, gives the same rows
@pytest.mark.slow
def test_our_command_gives_the_same_scores(generated: Path, ours: Path, tmp_path: Path) -> None:
    root = copied(generated, tmp_path / "course")
    said = python(root, "-m", "nbjudge", "autograde", small.NAME, "--workers", "1")
    assert re.search(r"^rami +3/12 ", said, re.MULTILINE), said
    assert rows(root) == {where: row for where, row in rows(ours).items() if where[0] in HONEST}


@pytest.mark.slow
def test_no_feedback_page_shows_a_hidden_line(ours: Path) -> None:
    pages = sorted(ours.glob(f"feedback/*/{small.NAME}/*.html"))
    assert {page.parts[-3] for page in pages} == {"nora", "petra", "rami", "xena", "carl", "dina", "tara", "spy"}
    hidden = ["secret_number", "area(-1, 3)", "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"]
    for page in pages:
        text = re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8"))
        assert not [line for line in hidden if line in text], page


@pytest.mark.slow
@pytest.mark.parametrize("own_page", [True, pytest.param(False, marks=pytest.mark.whole)])
def test_hidden_cases_are_held_back_until_the_last_due_date(ours: Path, tmp_path: Path, own_page: bool) -> None:
    root = copied(ours, tmp_path / "course")

    def feedback(due: str) -> str:
        with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "autograd101") as book:
            book.update_or_create_assignment(small.NAME, duedate=due)
        book.engine.dispose()
        arguments = ("--student", "petra", "--force", f"--FeedbackPages.own_page={own_page}")
        commands.nbgrader(root, "generate_feedback", small.NAME, *arguments)
        return (root / "feedback" / "petra" / small.NAME / "coding.html").read_text(encoding="utf-8")

    before, after = feedback("2099-01-01 00:00:00 UTC"), feedback("2020-01-01 00:00:00 UTC")
    assert "A hidden test failed. What it asked is shown after 2099-01-01 00:00 UTC." in before
    assert "not doubled" not in before
    assert "not doubled" in after
    assert ("secret_number = 5\nassert double(secret_number)" in after) is own_page
    with Record(Course(root, f"sqlite:///{root / 'gradebook.db'}", "autograd101")) as record:
        record.extend("rami", small.NAME, datetime(2098, 1, 1))
    assert "is shown after 2098-01-01 00:00 UTC." in feedback("2020-01-01 00:00:00 UTC")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), pytest.param(("--notebook", "coding"), marks=pytest.mark.whole)])
def test_a_page_is_made_anew_where_it_would_say_something_else(
    ours: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Without --force, and whether or not anything says when it was handed in: a score, a comment, another answer."""
    root = copied(ours, tmp_path / "course")
    for path in root.glob(f"*/*/{small.NAME}/timestamp.txt"):
        path.unlink()
    page, other = (root / "feedback" / who / small.NAME / "coding.html" for who in ("petra", "rami"))
    told = list[str]()

    def feedback() -> tuple[str, str]:
        told.append(commands.nbgrader(root, "generate_feedback", small.NAME, *arguments))
        return page.read_text(encoding="utf-8"), other.read_text(encoding="utf-8")

    first, untouched = feedback()
    made_at = other.stat().st_mtime_ns
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "autograd101") as book:
        notebook = book.find_submission_notebook("coding", small.NAME, "petra")
        notebook.grades[0].manual_score, notebook.grades[0].needs_manual_grade = 0.25, False
        notebook.comments[0].manual_comment = "Said by a person."
        book.db.commit()
    book.engine.dispose()
    second, same = feedback()
    assert "Said by a person." in second
    assert "0.25" in second
    assert "Said by a person." not in first
    assert (same, other.stat().st_mtime_ns) == (untouched, made_at)
    done = {who: re.findall(rf"(\w+) existing assignment: .*\b{who}\b", told[-1]) for who in ("petra", "rami")}
    assert done == {"petra": ["Updating"], "rami": ["Skipping"]}


@pytest.mark.whole
@pytest.mark.parametrize("own_page", [True, False])
def test_what_an_answer_says_after_a_hidden_test_is_held_back_too(ours: Path, tmp_path: Path, own_page: bool) -> None:
    root = copied(ours, tmp_path / "course")
    for due, told in (("2099-01-01 00:00:00 UTC", False), ("2020-01-01 00:00:00 UTC", True)):
        with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "autograd101") as book:
            book.update_or_create_assignment(small.NAME, duedate=due)
        book.engine.dispose()
        arguments = ("--student", "spy", "--force", f"--FeedbackPages.own_page={own_page}")
        commands.nbgrader(root, "generate_feedback", small.NAME, *arguments)
        made = root / "feedback" / "spy" / small.NAME
        assert {path.name for path in made.iterdir()} == {"coding.html", "writing.html", *BESIDE}
        text = (made / "coding.html").read_text(encoding="utf-8")
        assert [said in text for said in ("remembered [", "asked [", ", 7.5")] == [told] * 3


@pytest.mark.whole  # on a hub it is released and fetched
@pytest.mark.slow
def test_a_class_s_feedback_is_released_whatever_one_of_them_did_to_the_secret(ours: Path, tmp_path: Path) -> None:
    """By nbgrader's own exchange: on a hub each page is fetched by the one who knows its submission's secret."""
    root, exchange = copied(ours, tmp_path / "course"), tmp_path / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    told = {"petra": b"ab" * 64, "rami": b"", "nora": b"\xff\xfe" * 20}
    for student, secret in told.items():
        path = root / "autograded" / student / small.NAME / "submission_secret.txt"
        path.write_bytes(secret)
    shutil.rmtree(root / "feedback")
    commands.nbgrader(root, "generate_feedback", small.NAME)
    commands.nbgrader(root, "release_feedback", small.NAME, f"--Exchange.root={exchange}")
    pages = {page.read_bytes(): page for page in (exchange / "autograd101/feedback").glob("*.html")}
    made = sorted(root.glob(f"feedback/*/{small.NAME}/*.html"))
    assert {page.read_bytes() for page in made} == set(pages)
    hers = root / "feedback/petra" / small.NAME / "coding.html"
    assert pages[hers.read_bytes()].stem == notebook_hash(secret="ab" * 64, notebook_id="coding")
    assert len({page.stem for page in (exchange / "autograd101/feedback").glob("*.html")}) == len(made)


@pytest.mark.whole  # test_passback asks the same of the functions
@pytest.mark.slow
def test_what_the_platform_doesn_t_have_yet_is_shown_and_nothing_is_sent_unasked(ours: Path, tmp_path: Path) -> None:
    root = copied(ours, tmp_path / "course")
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "autograd101") as book:
        for notebook in book.find_submission(small.NAME, "rami").notebooks:
            for grade in notebook.grades:  # a person has read all of it
                grade.manual_score, grade.needs_manual_grade = grade.auto_score or 0.0, False
        book.update_or_create_student("rami", lms_user_id="7")
        most = book.find_assignment(small.NAME).max_score
        points = book.find_submission(small.NAME, "rami").score
    book.engine.dispose()
    shown = python(root, "-m", "nbjudge", "passback", small.NAME, status=1)
    assert f"rami  {points:g}/{most:g}  would be sent" in shown
    assert "carl is left out: not graded" in shown
    assert "Nothing was sent" in shown
    asked = python(root, "-m", "nbjudge", "passback", small.NAME, "--yes", status=2)
    assert (
        "c.Passback.client_id, c.Passback.token_url, c.Passback.lineitems and c.Passback.key_file are not set" in asked
    )
    assert "would be sent" not in asked


@pytest.mark.slow
def test_a_failing_student_is_told_what_failed(ours: Path) -> None:
    page = (ours / "feedback" / "petra" / small.NAME / "coding.html").read_text(encoding="utf-8")
    assert "not doubled" in page


@pytest.mark.slow
@pytest.mark.browser
def test_no_script_of_a_submission_runs_in_its_page(ours: Path, browser: Browser) -> None:
    """Opened in a real browser: the page of the hostile submission sets nothing and asks before nothing."""
    page = browser.new_page()
    page.goto((ours / "feedback" / "xena" / small.NAME / "coding.html").as_uri(), wait_until="domcontentloaded")
    page.wait_for_timeout(300)
    assert page.evaluate("window.stolen") is None
    assert page.locator("[onerror], [onload], iframe, a[href^=javascript]").count() == 0
    assert "window.stolen = 1" in page.inner_text("body")  # the printed text is still shown, as text
    page.close()


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_as_if_nothing_had_happened(generated: Path, ours: Path, tmp_path: Path) -> None:
    """kill -9 of the coordinator after the first submission is recorded; the second run finds it done."""
    root = copied(generated, tmp_path / "course")
    command = [sys.executable, "-m", "nbjudge", "autograde", small.NAME, "--workers", "1"]
    running = subprocess.Popen(command, cwd=root, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    first = running.stderr.readline()
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    running.stderr.close()
    assert first.startswith("1/3 ")
    again = python(root, "-m", "nbjudge", "autograde", small.NAME, "--workers", "1")
    assert "unchanged" in again
    assert rows(root) == {where: row for where, row in rows(ours).items() if where[0] in HONEST}


@pytest.mark.slow
def test_an_unchanged_class_is_not_run_again_and_a_person_s_grade_stays(ours: Path, tmp_path: Path) -> None:
    root = copied(ours, tmp_path / "course")
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "autograd101") as book:
        grade = book.find_grade("why", "writing", small.NAME, "rami")
        grade.manual_score, grade.needs_manual_grade = 3.0, False
        book.db.commit()
    book.engine.dispose()
    started = time.time()
    said = python(root, "-m", "nbjudge", "autograde", small.NAME, status=1)
    assert said.count("unchanged") >= 2 * len(HONEST)
    assert rows(root)["rami", "why"][:3] == (None, 3.0, False)
    autograded = root / "autograded" / "rami" / small.NAME / "coding.ipynb"
    assert autograded.stat().st_mtime < started
