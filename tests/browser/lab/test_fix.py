"""The fix tried in a real JupyterLab: the cells so far run again in a new process, both pictures stand below."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.lab.harness import Lab, Watched, open_notebook, run_all
from tests.browser.lab.test_chapter import CELL_TIMEOUT_MS, write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.whole]

SETUP = "%load_ext seegrad\nimport torch\nstart = torch.tensor([1.0, 2.0])"
WRONG = """%%see
a = start.clone().requires_grad_()
out = a.sigmoid()
c = out.data
c.zero_()
out.sum().backward()"""
TRIAL_MS = 90_000


def test_the_fix_is_tried_and_both_pictures_stand_side_by_side(lab: Lab, watched: Watched) -> None:
    page = watched.page
    open_notebook(page, lab, write_notebook(lab, "fix.ipynb", SETUP, WRONG, "a.grad"))
    run_all(page)
    picture = page.locator(".sg").first
    picture.wait_for(timeout=2 * CELL_TIMEOUT_MS)
    expect(picture.locator(".sg-fl del")).to_have_text("c = out.data")
    expect(picture.locator(".sg-fl ins")).to_have_text("c = out.detach().clone()")
    page.get_by_role("button", name="Copy the fix").first.click()
    assert page.evaluate("navigator.clipboard.readText()") == "c = out.detach().clone()"
    page.get_by_role("button", name="Try the fix").click()
    found = page.locator(".sg-tr").first  # each of the two pictures below could hold one of its own
    expect(found).to_contain_text("With this line nothing is found any more.", timeout=TRIAL_MS)
    expect(found).to_contain_text("The gradient of a is [0, 0], and [0.197, 0.105] in the other recording.")
    expect(found.locator("p code", has_text="c = out.data")).to_be_visible()
    expect(found.locator("p b")).to_be_in_viewport()
    expect(found.locator(".sg")).to_have_count(2)
    for each in found.locator(".sg-cv").all():
        expect(each).to_be_in_viewport(ratio=0.9)
    assert watched.console_errors == []
    assert watched.foreign_requests == []
