"""A notebook with sixteen pictures opened again: its kernel lives, was restarted, is gone; untrusted; Notebook 7.

Each picture is there, played or still, and nobody reads an error of the widgets.
"""

from __future__ import annotations

import re
import subprocess
import sys

import nbformat
import pytest
from playwright.sync_api import Page, expect

from tests.browser.lab.harness import Lab, Watched, open_notebook, run_all, run_cell
from tests.browser.lab.test_chapter import SILENT, write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.whole]

MANY = 16
TIMEOUT_MS = 60_000
CDN = "https://unpkg.com"  # where nbconvert's page looks for what plays widgets
PICTURES = [SILENT.replace("{options}", "").strip() for _ in range(MANY)]
SEEN = """() => [...document.querySelectorAll('.jp-OutputArea-output')].filter((output) => {
  const drawn = output.querySelector('.sg-cv svg, img[src^="data:image/svg"]');
  return drawn && drawn.getBoundingClientRect().height > 60;
}).length"""
BROKEN = re.compile("Error displaying widget|model not found|Loading widget", re.IGNORECASE)


def run_and_save(page: Page, lab: Lab, name: str) -> str:
    path = write_notebook(lab, name, *PICTURES)
    open_notebook(page, lab, path)
    run_all(page)
    expect(page.locator(".sg")).to_have_count(MANY, timeout=2 * TIMEOUT_MS)
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=TIMEOUT_MS)
    return path


def all_are_there(page: Page) -> None:
    page.wait_for_function(f"() => ({SEEN})() === {MANY}", timeout=TIMEOUT_MS)
    assert not BROKEN.search(page.locator(".jp-NotebookPanel, .jp-Notebook").first.inner_text())


def test_the_kernel_lives(lab: Lab, watched: Watched) -> None:
    page = watched.page
    run_and_save(page, lab, "lives.ipynb")
    page.reload()
    all_are_there(page)
    assert page.locator(".sg").count() == MANY, "each is played"


def test_the_kernel_was_restarted(lab: Lab, watched: Watched) -> None:
    page = watched.page
    run_and_save(page, lab, "restarted.ipynb")
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.wait_for_timeout(4000)
    page.reload()
    all_are_there(page)


def test_an_answer_that_no_kernel_keeps_says_so(lab: Lab, watched: Watched) -> None:
    """In the open notebook after a restart, until its cell has run again; in one opened without a kernel."""
    page = watched.page
    path = write_notebook(lab, "asked.ipynb", SILENT.replace("{options}", ", ask='outcome'"))
    open_notebook(page, lab, path)
    run_all(page)
    picture = page.locator(".sg")
    said = picture.get_by_text("no answer counts. Run its cell again")
    expect(picture.locator(".sg-check")).to_be_visible(timeout=TIMEOUT_MS)
    expect(said).to_be_hidden()
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    expect(said).to_be_visible(timeout=TIMEOUT_MS)
    picture.locator("input[value=silent]").click()
    picture.locator(".sg-check").click()
    expect(picture.locator(".sg-qv .right")).to_be_visible()
    expect(said).to_be_visible()
    run_cell(page, 0)
    expect(picture.locator(".sg-check")).to_be_visible(timeout=TIMEOUT_MS)
    expect(said).to_be_hidden()
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=TIMEOUT_MS)
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    page.wait_for_timeout(2000)
    page.goto(lab.notebook_url(path))
    expect(said).to_be_visible(timeout=TIMEOUT_MS)


def test_there_is_no_kernel(lab: Lab, watched: Watched) -> None:
    page = watched.page
    path = run_and_save(page, lab, "gone.ipynb")
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    page.wait_for_timeout(2000)
    page.goto(f"{lab.url}/lab/tree/{path}?token={lab.token}&reset")
    all_are_there(page)


def test_nobody_trusts_it(lab: Lab, watched: Watched) -> None:
    page = watched.page
    path = run_and_save(page, lab, "mine.ipynb")
    book = nbformat.read(lab.root / path, as_version=4)
    for cell in book.cells:
        cell.source += " # from somebody else"
        cell.metadata.pop("trusted", None)
    nbformat.write(book, lab.root / "theirs.ipynb")
    page.goto(f"{lab.url}/lab/tree/theirs.ipynb?token={lab.token}&reset")
    all_are_there(page)


def test_as_html(lab: Lab, watched: Watched) -> None:
    page = watched.page
    path = run_and_save(page, lab, "exported.ipynb")
    assert f"{CDN}/" in exported(lab, path, "html"), "with the widgets' state nbconvert leaves the picture to a CDN"
    exported(lab, path, "seegrad")
    page.goto((lab.root / "exported.html").as_uri())
    expect(page.locator(".sg-cv svg")).to_have_count(MANY, timeout=TIMEOUT_MS)
    book = nbformat.read(lab.root / path, as_version=4)
    del book.metadata["widgets"]
    nbformat.write(book, lab.root / path)
    assert CDN not in exported(lab, path, "html")
    page.goto((lab.root / "exported.html").as_uri())
    all_are_there(page)


def exported(lab: Lab, path: str, form: str) -> str:
    command = [sys.executable, "-m", "nbconvert", "--to", form, path]
    subprocess.run(command, cwd=lab.root, check=True, capture_output=True)
    return (lab.root / path).with_suffix(".html").read_text(encoding="utf-8")


def test_in_notebook_7(lab: Lab, watched: Watched) -> None:
    page = watched.page
    path = run_and_save(page, lab, "seven.ipynb")
    page.goto(f"{lab.url}/notebooks/{path}?token={lab.token}")
    all_are_there(page)
