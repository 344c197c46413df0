"""A notebook in a folder called `zh_CN`: everything around the picture is Chinese, and nobody chose it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.lab.harness import ROOT, Lab, Watched, open_notebook, run_all

pytestmark = pytest.mark.browser

CHAPTER = Path("notebooks/zh_CN/05_data_versus_detach.ipynb")
TIMEOUT_MS = 40_000


@pytest.mark.whole
def test_the_folder_of_the_notebook_is_its_language(lab: Lab, watched: Watched) -> None:
    page = watched.page
    (lab.root / CHAPTER.parent).mkdir(exist_ok=True)
    shutil.copy(ROOT / CHAPTER, lab.root / CHAPTER)
    open_notebook(page, lab, str(CHAPTER))
    run_all(page)
    asked = page.locator(".jp-CodeCell", has_text="--ask outcome --as rec").locator(".sg")
    asked.wait_for(timeout=TIMEOUT_MS)
    asked.scroll_into_view_if_needed()
    expect(asked).to_have_attribute("aria-label", "自动求导图，逐步演示")
    expect(asked.get_by_role("button", name="下一步（→）")).to_be_visible()
    expect(asked.locator(".sg-qp")).to_have_text("反向传播时会发生什么？")

    asked.get_by_label("不报错，也没有哪个梯度是错的").check()
    asked.get_by_role("button", name="提交我的预测").click()
    expect(asked.locator(".sg-qv")).to_contain_text("✗ 不对。torch 没有报错，梯度却是错的。没有报错不等于梯度正确")
    expect(asked.locator(".sg-qv code")).to_contain_text('{"outcome": "fine"}')
    expect(asked.locator(".sg-chip")).to_have_text("反向")
    assert "没有报错，梯度却是错的" in asked.locator(".sg-in").inner_text()
    assert not watched.console_errors
    assert not watched.foreign_requests
