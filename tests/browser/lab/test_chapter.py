"""Chapter 05 as a learner meets it: a real JupyterLab, a real kernel, real clicks and keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.lab.harness import Lab, Watched, open_notebook, run_cell, run_until, watching

pytestmark = pytest.mark.browser

CHAPTER = "notebooks/en/05_data_versus_detach.ipynb"
CELL_TIMEOUT_MS = 20_000
SILENT = """
%load_ext seegrad
import seegrad, torch
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
with seegrad.record() as rec:
    out = a.sigmoid()
    c = out.data
    c.zero_()
    loss = out.sum()
    loss.backward()
picture = seegrad.show(rec{options})
picture
"""


def write_notebook(lab: Lab, name: str, *cells: str) -> str:
    code: Any = [nbformat.v4.new_code_cell(text.strip(), id=f"cell{number}") for number, text in enumerate(cells)]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    (lab.root / name).write_text(nbformat.writes(nbformat.v4.new_notebook(cells=code, metadata=spec)))
    return name


STATE = "import json; print(json.dumps({'step': picture.step, 'selected': picture.selected, 'answer': picture.answer}))"
SETUP = "%load_ext seegrad\nimport torch"
RAISING = """
%%see
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid()
c = out.detach()
c.zero_()
out.sum().backward()
"""


@pytest.fixture(scope="module")
def pictures(browser: Browser, lab: Lab) -> Iterator[Watched]:
    """One notebook that is open in one window, where each test runs cells of its own."""
    asking = [SILENT.replace("{options}", options) for options in (", step=0", ", ask='outcome'")]
    cells = [cell for each in asking for cell in (each, STATE)]
    with watching(browser) as watched:
        open_notebook(watched.page, lab, write_notebook(lab, "pictures.ipynb", *cells, SETUP, RAISING))
        yield watched


def told_by_python(page: Page, number: int) -> Any:
    """Run the cell and read the JSON that it prints."""
    cell = run_cell(page, number)
    output = cell.locator(".jp-OutputArea-output pre").last
    expect(output).to_contain_text("{", timeout=CELL_TIMEOUT_MS)
    return json.loads(output.inner_text())


def when_python_tells(page: Page, number: int, step: int) -> None:
    """ipywidgets holds a change back while the kernel works on the one before it: a cell may run ahead of it."""
    for _ in range(20):
        told = told_by_python(page, number)["step"]
        if told == step:
            break
        page.wait_for_timeout(250)
    assert told == step


def count(picture: Locator) -> tuple[int, int]:
    """The `3 / 9` beside the track."""
    step, total = picture.locator(".sg-ct").inner_text().split("/")
    return int(step), int(total)


def when_there(page: Page, path: Path, said: str = "") -> Path:
    """The kernel hears of an answer when the cells that still run are done; another test may have made the file."""
    for _ in range(120):
        if path.exists() and said in path.read_text():
            break
        page.wait_for_timeout(500)
    return path


def assert_quiet(watched: Watched) -> None:
    assert not watched.console_errors
    assert not watched.foreign_requests


def test_a_chapter_is_run_up_to_a_prediction_that_is_answered(lab: Lab, watched: Watched) -> None:
    page = watched.page
    open_notebook(page, lab, CHAPTER)
    asked = run_until(page, "--ask outcome --as rec").locator(".sg")
    asked.wait_for(timeout=2 * CELL_TIMEOUT_MS)
    asked.scroll_into_view_if_needed()
    hidden_from = int(asked.locator(".sg-ct").inner_text().removesuffix(" / ?"))  # even the length is hidden
    expect(asked.get_by_text("but the numbers changed").first).to_be_hidden()

    asked.get_by_label("no error, and no gradient is wrong").check()
    asked.get_by_role("button", name="Check my prediction").click()
    expect(asked.locator(".sg-qv")).to_contain_text("M06")
    expect(asked.locator(".sg-qv code")).to_contain_text('{"outcome": "fine"}')
    assert count(asked)[0] > hidden_from, "the picture shows the evidence"
    expect(asked.get_by_text("but the numbers changed").first).to_be_visible()

    kept = json.loads(when_there(page, lab.home / ".seegrad_progress.json", Path(CHAPTER).stem).read_text())
    here = kept["chapters"][Path(CHAPTER).stem]["predictions"].values()
    answers = [prediction for prediction in here if prediction["answer"] == {"outcome": "fine"}]
    assert [(answer["right"], answer["misconception"]) for answer in answers] == [(False, "M06")]
    assert_quiet(watched)


def test_steps_by_click_and_by_key_reach_python(pictures: Watched) -> None:
    page = pictures.page
    picture = run_cell(page, 0).locator(".sg")
    picture.wait_for(timeout=CELL_TIMEOUT_MS)
    _, total = count(picture)
    assert count(picture) == (1, total)

    picture.get_by_role("button", name="Next step (→)").click()
    picture.get_by_role("button", name="Next step (→)").click()
    assert count(picture) == (3, total)
    when_python_tells(page, 1, step=2)

    picture.locator("input[type=range]").focus()
    for key, step in (("ArrowRight", 4), ("ArrowLeft", 3), ("Home", 1), ("End", total)):
        page.keyboard.press(key)
        assert count(picture) == (step, total), key
    when_python_tells(page, 1, step=total - 1)

    sigmoid = picture.get_by_role("button", name="SigmoidBackward0").first
    sigmoid.click()
    expect(picture.locator(".sg-in")).to_contain_text("_saved_result")
    page.wait_for_timeout(500)  # as above: the cell must not run ahead of the click
    assert told_by_python(page, 1)["selected"]
    assert_quiet(pictures)


@pytest.mark.whole
def test_keys_pressed_in_the_picture_do_not_reach_the_notebook(lab: Lab, watched: Watched) -> None:
    """In command mode `a`, `b` and `x` add and cut cells: JupyterLab must not hear them."""
    page = watched.page
    open_notebook(page, lab, write_notebook(lab, "keys.ipynb", SILENT.replace("{options}", ""), "1 + 1"))
    run_cell(page, 0)
    picture = page.locator(".sg")
    picture.wait_for(timeout=CELL_TIMEOUT_MS)
    cells = page.locator(".jp-NotebookPanel:visible .jp-Cell")
    before = cells.count()
    focusable = picture.locator("button:not(:disabled), input, [tabindex='0']")
    for number in range(focusable.count()):
        focusable.nth(number).focus()
        for key in "abxz":
            page.keyboard.press(key)
    assert cells.count() == before
    assert_quiet(watched)


def test_an_answer_by_keyboard_alone_reaches_python(pictures: Watched) -> None:
    page = pictures.page
    picture = run_cell(page, 2).locator(".sg")
    picture.wait_for(timeout=CELL_TIMEOUT_MS)
    picture.locator("input[type=radio]").first.focus()
    page.keyboard.press("ArrowDown")  # from the first choice to the second: silent
    picture.get_by_role("button", name="Check my prediction").focus()
    page.keyboard.press("Enter")
    expect(picture.locator(".sg-qv")).to_contain_text("Right")
    assert told_by_python(page, 3)["answer"] == {"outcome": "silent"}
    assert_quiet(pictures)


def test_a_cell_that_raises_shows_the_picture_and_torch_s_own_error(pictures: Watched) -> None:
    run_cell(pictures.page, 4)
    cell = run_cell(pictures.page, 5)
    picture = cell.locator(".sg")
    picture.wait_for(timeout=CELL_TIMEOUT_MS)
    expect(picture.locator(".sg-in .ex")).to_contain_text("modified by an inplace operation")
    error = cell.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']")
    expect(error).to_contain_text("RuntimeError", timeout=CELL_TIMEOUT_MS)
    expect(error).to_contain_text("modified by an inplace operation")
    assert_quiet(pictures)


@pytest.mark.whole
def test_the_picture_follows_the_page_s_theme(lab: Lab, watched: Watched, tmp_path: Path) -> None:
    page = watched.page
    open_notebook(page, lab, write_notebook(lab, "themes.ipynb", SILENT.replace("{options}", "")))
    run_cell(page, 0)
    picture = page.locator(".sg")
    picture.wait_for(timeout=CELL_TIMEOUT_MS)
    for theme in ("light", "dark"):
        name = f"JupyterLab {theme.capitalize()}"
        page.evaluate("name => { window.jupyterapp.commands.execute('apputils:change-theme', {theme: name}); }", name)
        expect(picture).to_have_attribute("data-theme", theme, timeout=CELL_TIMEOUT_MS)
        picture.screenshot(path=tmp_path / "picture.png")
        with Image.open(tmp_path / "picture.png") as shot:
            brightness = shot.convert("L").getpixel((8, 8))
        assert (brightness < 60) == (theme == "dark")
    assert_quiet(watched)
