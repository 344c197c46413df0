"""A class on a real JupyterHub, in a browser, from the release to the feedback, and once more after the hub was killed.

Accounts are made for it and removed: it runs as root. `make hub` installs what it needs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.browser.hub.harness import ENVIRONMENT, RunningHub, missing, running_hub
from tests.browser.lab.harness import ROOT
from tests.course.answer_files import ASSIGNMENT

pytestmark = [pytest.mark.whole, pytest.mark.browser]

TIMEOUT_MS = 180_000
FORMGRADER = "/services/autograd101/formgrader"
BY_HAND, TOTAL = 15, 100
EXPLAINED = "An explanation that a person reads."
CELLS = ("import torch\n%load_ext seegrad", "%%see\nw = torch.ones(2, requires_grad=True)\n(w * 2).sum().backward()")
SCORES = """
import json, sys
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as book:
    print(json.dumps({s.student.id: [s.score, s.needs_manual_grade] for s in book.assignment_submissions(sys.argv[1])}))
"""


@pytest.fixture(scope="module")
def hub() -> Iterator[RunningHub]:
    if why := missing():
        pytest.skip(f"no hub is started: {why}")
    expect.set_options(timeout=TIMEOUT_MS)
    with running_hub(ASSIGNMENT) as running:
        yield running
    expect.set_options(timeout=None)


@contextmanager
def logged_in(browser: Browser, hub: RunningHub, role: str, where: str) -> Iterator[Page]:
    """A browser of one person's own, on a page of the hub."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    page.goto(f"{hub.url}/hub/login?next={where}")
    page.fill("#username_input", hub.accounts[role])
    page.fill("#password_input", hub.password)
    page.click("#login_submit")
    try:
        yield page
    finally:
        if shots := os.environ.get("SEEGRAD_SHOTS"):
            page.screenshot(path=Path(shots) / f"hub-{role}-{where.strip('/').replace('/', '_')}.png")
        context.close()


def assignment_list(page: Page) -> None:
    """Nbgrader → Assignment List."""
    page.wait_for_selector(".lm-MenuBar-item:has-text('Nbgrader')")
    page.click(".lm-MenuBar-item:has-text('Nbgrader')")
    page.click(".lm-Menu-item:has-text('Assignment List')")


def said(page: Page) -> str:
    """What formgrader's dialog says; then it is closed."""
    dialog = page.locator(".modal:visible")
    expect(dialog).to_contain_text("Log Output", timeout=TIMEOUT_MS)
    text = dialog.inner_text()
    dialog.get_by_role("button", name="Close").last.click()
    expect(dialog).to_be_hidden()
    return text


def press(page: Page, row: Locator, column: str) -> str:
    """One of formgrader's buttons, found by its column; what came of it."""
    row.locator(f".{column} a").click()
    return said(page)


def row_of(page: Page, text: str) -> Locator:
    row = page.locator("tbody tr", has_text=text).first
    expect(row).to_be_visible(timeout=TIMEOUT_MS)
    return row


def seen(what: Locator, timeout_ms: int) -> bool:
    """True once it is on the page, False where it isn't in time."""
    try:
        what.wait_for(timeout=timeout_ms)
    except PlaywrightTimeout:
        return False
    return True


def in_a_terminal(page: Page, command: str, ended: Path) -> None:
    """What docs/hub.md has an instructor type there; it ends with status 0, which it is to write into this file."""
    page.locator(".jp-LauncherCard:visible", has_text="Terminal").click()
    page.locator(".jp-Terminal:visible .xterm-screen").click()
    page.keyboard.type(f"{command}; echo $? > {ended}\n")
    for _ in range(TIMEOUT_MS // 1_000):
        if ended.exists() and (said := ended.read_text()):
            assert said == "0\n"
            return
        page.wait_for_timeout(1_000)
    pytest.fail(f"it hasn't ended: {command}")


def scores(hub: RunningHub) -> dict[str, list[float]]:
    return dict(json.loads(hub.as_grader("python", "-W", "ignore", "-c", SCORES, ASSIGNMENT)))


def answer_all(hub: RunningHub, role: str) -> None:
    """The right answers in the notebook that a student has fetched, as if typed there."""
    path = hub.home(role) / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    solved = json.loads((ROOT / "source" / ASSIGNMENT / path.name).read_text(encoding="utf-8"))
    answers = {
        cell["metadata"]["nbgrader"]["grade_id"]: cell["source"]
        for cell in solved["cells"]
        if cell["metadata"].get("nbgrader", {}).get("solution")
    }
    fetched = json.loads(path.read_text(encoding="utf-8"))
    for cell in fetched["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if name in answers:
            cell["source"] = [EXPLAINED] if cell["cell_type"] == "markdown" else answers[name]
    path.write_text(json.dumps(fetched), encoding="utf-8")


def test_an_instructor_finds_formgrader_from_where_the_login_leads(hub: RunningHub, browser: Browser) -> None:
    with logged_in(browser, hub, "ines", "/hub/spawn") as page:
        page.click(".lm-MenuBar-item:has-text('File')")
        with page.context.expect_page() as opened:
            page.click(".lm-Menu-item:has-text('Hub Control Panel')")
        opened.value.get_by_role("button", name="Services").or_(opened.value.get_by_text("Services")).first.click()
        opened.value.get_by_role("link", name="autograd101").click()
        opened.value.wait_for_url("**/services/autograd101/**")


def test_a_release_is_made_by_the_instructor_alone(hub: RunningHub, browser: Browser) -> None:
    with logged_in(browser, hub, "ines", "/services/autograd101/") as page:
        row = row_of(page, ASSIGNMENT)
        assert "Success" in press(page, row, "assign")
        assert "Success" in press(page, row, "release")
        expect(row).to_contain_text("released")
        for column, folder in (("name", "source"), ("preview", "release")):
            with page.context.expect_page() as opened:
                row.locator(f".{column} a").click()
            expect(opened.value.locator("body")).to_contain_text(f"{ASSIGNMENT}.ipynb")
            assert f"/services/autograd101/tree/course/{folder}" in opened.value.url
            opened.value.close()
    with logged_in(browser, hub, "ada", f"{FORMGRADER}/manage_assignments") as page:
        expect(page.locator("body")).to_contain_text("403")
    source = hub.home("grader") / "course/source"
    done = subprocess.run(["ls", source], user=hub.accounts["ada"], capture_output=True, check=False)
    assert done.returncode != 0


@pytest.mark.parametrize("role", ["ada", "kofi"])
def test_a_student_fetches_answers_validates_and_hands_in(hub: RunningHub, browser: Browser, role: str) -> None:
    with logged_in(browser, hub, role, "/hub/spawn") as page:
        assignment_list(page)
        page.locator("#released_assignments_list").get_by_role("button", name="Fetch", exact=True).click()
        fetched = page.locator("#fetched_assignments_list")
        expect(fetched.get_by_role("button", name="Submit")).to_be_visible()
        if role == "ada":
            answer_all(hub, role)
            fetched.locator(".assignment-notebooks-link").click()
            fetched.get_by_role("button", name="Validate").click()
            dialog = page.locator(".jp-Dialog, .modal:visible")
            expect(dialog).to_contain_text("Success")
            page.keyboard.press("Enter")
        fetched.get_by_role("button", name="Submit").click()
        expect(page.locator("#submitted_assignments_list")).to_contain_text(ASSIGNMENT)
        expect(page.locator(".lm-Menu-item:has-text('Formgrader')")).to_have_count(0)
        listed = page.request.get(f"{hub.url}/user/{hub.accounts[role]}/api/kernelspecs").json()["kernelspecs"]
        assert {"python3", "seegrad-cpu"} <= set(listed)


def test_the_notebook_runs_in_the_student_s_server_and_shows_the_graph(hub: RunningHub, browser: Browser) -> None:
    folder = hub.home("ada") / "try"
    folder.mkdir()
    cells: Any = [nbformat.v4.new_code_cell(text) for text in CELLS]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=spec)
    (folder / "graph.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    shutil.chown(folder, hub.accounts["ada"])
    shutil.chown(folder / "graph.ipynb", hub.accounts["ada"])
    with logged_in(browser, hub, "ada", f"/user/{hub.accounts['ada']}/lab/tree/try/graph.ipynb") as page:
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]")
        drawn = page.locator(".jp-NotebookPanel:visible .sg svg").first
        for _ in range(20):  # what is run while JupyterLab is still connecting is dropped
            page.click(".lm-MenuBar-item:has-text('Run')")
            page.click(".lm-Menu-item:has-text('Run All Cells')")
            if seen(drawn, timeout_ms=TIMEOUT_MS // 20):
                return
        pytest.fail("no picture")


def test_a_class_is_graded_though_the_hub_is_killed_in_the_middle(hub: RunningHub, browser: Browser) -> None:
    ada, kofi = hub.accounts["ada"], hub.accounts["kofi"]
    graded = f"{FORMGRADER}/manage_submissions/{ASSIGNMENT}"
    with logged_in(browser, hub, "ines", "/services/autograd101/") as page:
        assert "Success" in press(page, row_of(page, ASSIGNMENT), "collect")
        page.goto(hub.url + graded)
        assert "Success" in press(page, row_of(page, ada), "autograde")
        expect(row_of(page, ada).locator("td").first).to_have_text(ada)  # the gradebook knows no name
        row_of(page, kofi).locator(".autograde a").click()
        page.wait_for_timeout(2_000)  # it is at work
    hub.kill()
    hub.start()
    with logged_in(browser, hub, "ines", graded) as page:
        assert "Success" in press(page, row_of(page, kofi), "autograde")
        expect(row_of(page, ada)).to_contain_text("needs manual grading")
    by_button = scores(hub)
    assert by_button[ada] == [TOTAL - BY_HAND, True]
    assert 0 <= by_button[kofi][0] < TOTAL / 4
    with logged_in(browser, hub, "ines", "/services/autograd101/lab") as page:
        in_a_terminal(page, f"cd course && nbjudge autograde {ASSIGNMENT} --force", hub.home("grader") / "course/ended")
    assert scores(hub) == by_button


def test_the_grader_s_server_is_known_to_the_hub_that_comes_after(hub: RunningHub, browser: Browser) -> None:
    before = len((hub.root / "hub.log").read_text())
    hub.kill_alone()
    hub.start()
    with logged_in(browser, hub, "ines", f"{FORMGRADER}/manage_submissions/{ASSIGNMENT}") as page:
        expect(row_of(page, hub.accounts["ada"])).to_contain_text("needs manual grading")
    assert "exited with status" not in (hub.root / "hub.log").read_text()[before:], "its own can't have the port"


def test_a_free_text_is_scored_and_the_feedback_read_by_its_student(hub: RunningHub, browser: Browser) -> None:
    ada = hub.accounts["ada"]
    before = scores(hub)
    with logged_in(browser, hub, "ines", f"{FORMGRADER}/gradebook/{ASSIGNMENT}/{ASSIGNMENT}") as page:
        page.locator("tbody tr a", has_text="Submission").first.click()
        page.wait_for_selector("input.score")
        page.wait_for_load_state("networkidle")  # formgrader has read the scores: what is typed before is lost
        box = page.locator("input.score").last  # the text's: the questions before it have their scores
        box.fill(str(BY_HAND))
        with page.expect_response(lambda answer: "/api/grade/" in answer.url and answer.request.method == "PUT"):
            box.press("Tab")  # formgrader saves what is left
        page.goto(f"{hub.url}{FORMGRADER}/manage_assignments")
        row = row_of(page, ASSIGNMENT)
        assert "Success" in press(page, row, "generate-feedback")
        assert "Success" in press(page, row, "release-feedback")
    moved = [(then, now) for student, now in scores(hub).items() if now != (then := before[student])]
    assert [(now[0] - then[0], now[1]) for then, now in moved] == [(BY_HAND, False)]
    with logged_in(browser, hub, "ada", "/hub/spawn") as page:  # the hub's end was her server's too
        assignment_list(page)
        page.locator("#submitted_assignments_list").get_by_role("button", name="Fetch Feedback").click()
        page.locator("#submitted_assignments_list").get_by_text("(view feedback)").wait_for()
    (told,) = (hub.home("ada") / ASSIGNMENT / "feedback").rglob("*.html")
    assert f"{scores(hub)[ada][0]:g}" in told.read_text(encoding="utf-8")


def test_login_by_a_learning_platform_is_configured_as_its_package_understands_it(tmp_path: Path) -> None:
    """The settings of `values.yaml`, read by the authenticator itself."""
    import yaml

    said_there = yaml.safe_load((ROOT / "deploy/hub/values.yaml").read_text(encoding="utf-8"))["hub"]["config"]
    (tmp_path / "said.json").write_text(json.dumps(said_there))
    program = (
        "import json, sys; from traitlets.config import Config; from jupyterhub.app import JupyterHub; "
        "said = Config(json.load(open(sys.argv[1]))); hub = JupyterHub(config=said); "
        "login = hub.authenticator_class(config=said); "
        "strange = sorted(set(said['LTI13Authenticator']) - set(login.trait_names())); "
        "print(type(login).__name__, login.issuer, login.config_json_url('/hub/'), strange)"
    )
    command = [ENVIRONMENT / "bin/python", "-c", program, str(tmp_path / "said.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "LTI13Authenticator https://lms.example.org /hub/lti13/config []", done.stderr
