"""A learner's progress in a real JupyterLab: an answer on the graph and a passed check are on the map."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import expect

from tests.browser.lab.harness import Lab, Watched, open_notebook, run_cell

pytestmark = pytest.mark.browser

CELLS = {
    "load": "import torch\nimport seegrad\n%load_ext seegrad",
    "predict": "%%see --ask keeps\na = torch.ones(2, requires_grad=True)\nb = a * 2\nb.sum().backward()",
    "versions_test": "from seegrad.check import expect\nexpect('1 + 1', 1 + 1).equals(2)",
    "map": "seegrad.course_map()",
}
TIMEOUT_MS = 20_000


def progress_of(home: Path, wanted: str) -> dict[str, Any]:
    """What the home folder's file says, once it says what is wanted."""
    for _ in range(60):
        path = home / ".seegrad_progress.json"
        if path.exists() and wanted in path.read_text(encoding="utf-8"):
            break
        time.sleep(0.5)
    return dict(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.whole  # the map itself is asked in tests/library/learn
def test_what_was_done_is_on_the_map(lab: Lab, watched: Watched) -> None:
    (lab.root / "zh_CN").mkdir()
    cells: Any = [nbformat.v4.new_code_cell(text, id=name) for name, text in CELLS.items()]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=spec)
    (lab.root / "zh_CN" / "02_leaf_tensors.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    open_notebook(watched.page, lab, "zh_CN/02_leaf_tensors.ipynb")
    run_cell(watched.page, 0)
    picture = run_cell(watched.page, 1).locator(".sg")
    expect(picture.locator(".sg-check")).to_be_visible(timeout=TIMEOUT_MS)
    picture.locator("[id$='-t0-0']").click()
    picture.locator("[id$='-t1-0']").click()
    picture.locator(".sg-check").click()
    expect(picture.locator(".sg-py code")).to_have_text(re.compile(r'^q\d+ = \{"keeps": \["a", "b"\]\}$'))
    run_cell(watched.page, 2)
    kept = progress_of(lab.home, "versions_test")
    here = kept["chapters"]["02_leaf_tensors"]
    assert here["exercises"] == {"versions_test": {"right": True, "tries": 1, "misconception": ""}}
    assert [tried["misconception"] for tried in here["predictions"].values()] == ["M01"]
    drawn = run_cell(watched.page, 3)
    expect(drawn.locator("ol")).to_contain_text(
        "7 个预测，对了 0 个；6 道练习，通过 1 道；当前位置", timeout=TIMEOUT_MS
    )
    expect(drawn.locator("img")).to_be_visible()
    assert watched.foreign_requests == []
