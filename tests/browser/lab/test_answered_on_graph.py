"""An assignment's exercise answered on its graph, in a real JupyterLab: the answer comes into its cell as Python."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.validator import Validator
from playwright.sync_api import Locator, Page, expect

from tests.browser.lab.harness import ROOT, Lab, Watched, open_notebook

pytestmark = pytest.mark.browser

TIMEOUT_MS = 30_000
STUB = "raise NotImplementedError()"
PICKED = 'found = {"culprit": 7, "victim": 5, "serves": "l2", "holds": 0}'
"""What the picture offers of the picks below."""
FORM = (
    "• Answered: each part of your answer is one that may be chosen. "
    "Whether it is right is found out when it is graded."
)


def handed_out(lab: Lab, lang: str, assignment: str) -> str:
    """The release as a learner has it."""
    path = Path("release", lang, assignment, f"{assignment}.ipynb")
    (lab.root / path).parent.mkdir(parents=True, exist_ok=True)
    (lab.root / path).write_bytes((ROOT / path).read_bytes())
    return path.as_posix()


def cell_at(page: Page, which: str) -> Locator:
    """The cell of which this is true, as `(cell) => …` of its model."""
    script = "(which) => window.jupyterapp.shell.currentWidget.content.widgets.findIndex((w) => eval(which)(w.model))"
    return page.locator(".jp-NotebookPanel:visible .jp-Cell").nth(page.evaluate(script, which))


def graded(page: Page, grade_id: str) -> Locator:
    return cell_at(page, f"(cell) => cell.getMetadata('nbgrader')?.grade_id === '{grade_id}'")


def run(page: Page, cell: Locator) -> None:
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    expect(cell.locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"), timeout=TIMEOUT_MS)


def asked(page: Page, name: str) -> Locator:
    """The picture on which `name` is answered."""
    run(page, page.locator(".jp-NotebookPanel:visible .jp-CodeCell").first)
    cell = cell_at(page, f"(cell) => /pick\\(\\s*.{name}./.test(cell.sharedModel.getSource())")
    run(page, cell)
    picture = cell.locator(".sg")
    picture.wait_for(timeout=TIMEOUT_MS)
    return picture


def cell_of(lab: Lab, page: Page, path: str, grade_id: str) -> Any:
    """The cell as it is saved."""
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=TIMEOUT_MS)
    cells = nbformat.read(lab.root / path, as_version=4).cells
    return next(cell for cell in cells if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def validated(lab: Lab, path: str, exercise: str) -> dict[str, Any]:
    """What Validate finds wrong with this exercise, as it is saved: the others aren't answered."""
    book = nbformat.read(lab.root / path, as_version=4)
    marks = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in book.cells]
    place = marks.index(exercise)
    book.cells = [next(cell for cell in book.cells if cell.cell_type == "code"), *book.cells[place - 1 : place + 2]]
    nbformat.write(book, lab.root / f"{exercise}.ipynb")
    return dict(Validator().validate(str(lab.root / f"{exercise}.ipynb")))


def value_of(source: str, name: str) -> Any:
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102  # the line of Python that the picture offers
    return names[name]


def test_a_pick_becomes_python_in_the_answer_cell(lab: Lab, watched: Watched) -> None:
    page, path = watched.page, handed_out(lab, "en", "01_computational_graphs")
    open_notebook(page, lab, path)
    picture = asked(page, "found")
    before = cell_of(lab, page, path, "find")
    assert STUB in before.source
    write = picture.get_by_role("button", name="Write it into the answer cell")
    expect(write).to_be_disabled()

    picture.locator(".sg-cd button", has_text="seen.clamp_").click()
    picture.locator(".sg-cv .fn", has=page.locator(".fnm:text-is('MulBackward0')")).last.click()
    picture.locator(".sg-cv .tn", has=page.locator(".nm:text-is('l2')")).last.focus()
    page.keyboard.press("Enter")
    picture.get_by_label("holds", exact=True).focus()
    page.keyboard.press("ArrowDown")
    shown = picture.locator(".sg-py code").inner_text()
    assert shown == PICKED
    write.focus()
    page.keyboard.press("Enter")
    expect(picture.get_by_text("Written.")).to_be_visible()

    after = cell_of(lab, page, path, "find")
    assert after.source == shown, "plain Python, and the stub is gone"
    assert after.metadata == before.metadata
    run(page, graded(page, "find"))
    check = graded(page, "find_test")
    run(page, check)
    expect(check.locator(".jp-OutputArea-output p")).to_have_text(FORM)
    expect(check.locator("[data-mime-type='application/vnd.jupyter.error']")).to_have_count(0)
    assert watched.foreign_requests == []
    assert watched.console_errors == []


def test_what_a_pick_writes_is_valid(lab: Lab) -> None:
    path = handed_out(lab, "en", "01_computational_graphs")
    book = nbformat.read(lab.root / path, as_version=4)
    (answer,) = (cell for cell in book.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "find")
    answer.source = PICKED
    nbformat.write(book, lab.root / path)
    assert validated(lab, path, "find") == {}


@pytest.mark.whole
def test_in_chinese_and_what_is_written_by_hand_is_read(lab: Lab, watched: Watched) -> None:
    page, path = watched.page, handed_out(lab, "zh_CN", "05_data_versus_detach")
    open_notebook(page, lab, path)
    picture = asked(page, "found")
    picture.get_by_label("culprit", exact=True).select_option(label="第 6 行")
    picture.get_by_role("button", name="写入答案单元格").click()
    saved = cell_of(lab, page, path, "find").source
    assert saved == 'found = {"culprit": 6, "victim": None, "detach": None}'

    answer = graded(page, "find").locator(".cm-content")
    answer.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text("found = dict(\n    culprit=6, victim=1, detach='silent')")
    picture.get_by_label("detach", exact=True).select_option("raises")
    picture.get_by_role("button", name="写入答案单元格").click()
    saved = cell_of(lab, page, path, "find").source
    assert value_of(saved, "found") == {"culprit": 6, "victim": 1, "detach": "raises"}
    assert "dict(" in saved, "what the learner wrote stays"

    answer.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text("found = {'culprit': 5, 'victim': 1, 'detach': 'raises'}")
    again = asked(page, "found")
    expect(again.get_by_label("culprit", exact=True)).to_have_value("5")
    expect(again.get_by_label("detach", exact=True)).to_have_value('"raises"')
    run(page, graded(page, "find"))
    run(page, graded(page, "find_test"))
    expect(graded(page, "find_test").locator(".jp-OutputArea-output p")).to_contain_text("• 已作答：")
    assert watched.foreign_requests == []


@pytest.mark.whole
def test_in_notebook_7(lab: Lab, watched: Watched) -> None:
    page, path = watched.page, handed_out(lab, "en", "04_inplace_and_version")
    page.goto(f"{lab.url}/notebooks/{path}?token={lab.token}")
    cells = page.locator(".jp-Notebook .jp-CodeCell")
    cells.first.wait_for(timeout=TIMEOUT_MS)
    picture = cells.filter(has_text="from seegrad import pick").locator(".sg")
    for _ in range(20):  # what is run while a kernel is still connecting is dropped
        for cell in (cells.first, cells.filter(has_text="from seegrad import pick").first):
            cell.locator(".cm-content").click()
            page.keyboard.press("Control+Enter")
        page.wait_for_timeout(1500)
        if picture.count():
            break
    picture.get_by_label("version", exact=True).select_option("1")
    picture.get_by_role("button", name="Write it into the answer cell").click()
    answer = cells.filter(has_text="found = {").filter(has_not=page.locator(".sg"))
    expect(answer.locator(".cm-content")).to_have_text('found = {"culprit": None, "victim": None, "version": 1}')
    assert watched.foreign_requests == []
