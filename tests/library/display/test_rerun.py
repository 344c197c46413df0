"""The fix tried: a notebook's cells, or a script, run again with one line replaced, in a process of their own."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import seegrad
from seegrad.display.rerun import Rerun, of_notebook, of_script, outcome, replaced
from seegrad.display.widget import Comparison, diff, tried
from seegrad.model.recording import Mend, Place, Recording
from seegrad.model.scene import Scene
from seegrad.picture import still
from seegrad.words.errors import RecordingError

SCRIPT = """import sys, torch
torch.manual_seed(3)
a = torch.randn(3, requires_grad=True)
out = a.sigmoid()
c = out.data
c.zero_()
out.sum().backward()
print(a.grad.tolist(), sys.argv[1:])
"""
SEE = """%%see
a = torch.tensor([1.0, 2.0], requires_grad=True)
out = a.sigmoid()
c = out.detach()
c.mul_(2)
out.sum().backward()"""
CELLS = ["", "%load_ext seegrad\nimport torch", "print('no business of ours')", SEE]


def as_in_a_notebook(cells: list[str]) -> Recording:
    """What the last cell's picture was drawn from: the cells run in a process, nothing replaced."""
    numbered = tuple((number, text) for number, text in enumerate(cells) if text)
    return Rerun(str(Path.cwd()), (f"In [{len(cells) - 1}]", 1), numbered).run()


@pytest.mark.slow
def test_a_notebook_s_cells_are_run_again_with_the_line() -> None:
    """Two processes: as it is, and mended."""
    before = as_in_a_notebook(CELLS)
    (found,) = before.diagnoses
    assert found.mend
    assert (found.mend.place.file, found.mend.place.code, found.mend.line) == (
        "In [3]",
        "c = out.detach()",
        "c = out.detach().clone()",
    )
    rerun = of_notebook(before, found.mend, [*CELLS, "a later cell"], str(Path.cwd()))
    assert rerun
    assert rerun.cells[-1] == (3, SEE.replace("out.detach()", "out.detach().clone()"))
    shown = tried(before, found, rerun.run())
    assert shown["said"].startswith("As it is, the program ends on line 5 (`out.sum().backward()`), which raises")
    assert shown["said"].endswith("With this line nothing is found any more.")
    assert "`clone` on line 3" in shown["told"]
    assert [scene["schema"] for scene in shown["scenes"]] == [1, 1]


def test_what_isn_t_in_the_cells_is_only_copied() -> None:
    here = Mend(Place("In [2]", 1, "x += 1"), "x = x + 1")
    recording = Recording(code=((1, "x += 1"),), code_file="In [2]")
    assert of_notebook(recording, here, ["", "x = 1", "x += 1"], ".")
    assert not of_notebook(recording, here, ["", "x = 1", "y += 1"], "."), "the cell was written anew"
    assert not of_notebook(recording, replace(here, place=Place("helpers.py", 1, "x += 1")), ["", "", "x += 1"], ".")
    assert not of_notebook(replace(recording, code_file="train.py"), here, ["", "", "x += 1"], ".")
    script = replace(recording, code_file="train.py")
    assert not of_script(script, here, ".", [], check_nan=False)
    assert replaced("if x:\n    x += 1\nx += 1", Mend(Place("", 2, "x += 1"), "y")) == "if x:\n    y\nx += 1"
    assert replaced("\n\n\nx += 1", Mend(Place("", 1, "x += 1"), "y")) == "\n\n\ny", "it stands there once"


@pytest.mark.slow
def test_what_doesn_t_end_is_stopped_and_what_isn_t_reached_is_said(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    loop = f"import time\nwhile True:\n    open({str(alive)!r}, 'w').write(str(time.time())); time.sleep(0.05)"
    forever = Rerun(str(tmp_path), ("In [1]", 1), ((1, loop),))
    with pytest.raises(RecordingError, match="didn't end within 12 seconds"):
        forever.run(12)
    before = alive.read_text()
    time.sleep(0.3)
    assert alive.read_text() == before, "its process is gone"
    with pytest.raises(RecordingError, match="wasn't reached"):
        Rerun(str(tmp_path), ("In [1]", 1), ((1, "1 + 1"),)).run()


@pytest.mark.slow
def test_a_script_is_run_again_and_both_pictures_are_one_page(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "seegrad", "--try-fix", "both.html", "train.py", "-x"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-5:] == [
        "train.py:5:",
        "  - c = out.data",
        "  + c = out.detach().clone()",
        "With this line nothing is found any more.",
        "written: both.html",
    ]
    assert done.stdout.count("['-x']") == 1, "what the second run prints is nobody's"
    page = (tmp_path / "both.html").read_text()
    assert re.findall(r'<script data-for="(\w+)"', page) == ["p0", "p1"]
    assert "<title>train.py</title>" in page
    assert re.findall("<h2>(.+?)</h2>", page) == ["as it is", "with the fix"]
    assert "<del>− c = out.data</del><ins>+ c = out.detach().clone()</ins>" in page
    assert "\nas it is: " in page
    assert len(re.findall(r'data-step="\d+"', page)) == 2, "both open where the finding shows, or would"
    (tmp_path / "fine.py").write_text("import torch\na = torch.ones(2, requires_grad=True)\na.sum().backward()\n")
    fine = subprocess.run([*command[:-2], "fine.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert fine.stdout.splitlines()[-1] == "seegrad: nothing was found, so there is nothing to try."


def raising(line: str, passes: int) -> Recording:
    """A training loop that torch ends in its first pass, or that runs to its end."""
    w = torch.ones(2, requires_grad=True)
    with contextlib.suppress(RuntimeError), seegrad.record() as rec:
        for _ in range(passes):
            g = w.sigmoid()
            if line == "g *= 2":
                g *= 2
            else:
                g = g * 2
            w.grad = None
            g.sum().backward()
    return rec.recording


def test_that_it_runs_to_its_end_is_said_first_and_both_pictures_open_at_the_finding() -> None:
    before, after = raising("g *= 2", 5), raising("g = g * 2", 5)
    (found,) = before.diagnoses
    shown = tried(before, found, after)
    ends = re.escape(" (`g.sum().backward()`), which raises RuntimeError; with this line it comes to its end. ")
    gone = "With this line nothing is found any more."
    assert re.fullmatch(rf"As it is, the program ends on line \d+{ends}{gone}", shown["said"])
    assert shown["steps"][0] == found.frame
    first, second = shown["scenes"]
    broken, mended = (Scene.from_json(json.dumps(each)) for each in (first, second))
    opened = broken.frames[shown["steps"][0]]
    assert opened.severity == "error"
    assert opened.diagnosis == found.message()
    assert opened.culprit is not None
    assert "v0 saved ≠ v1 now" in still(broken, shown["steps"][0], "")
    here = mended.frames[shown["steps"][1]]
    assert here.text.startswith("SigmoidBackward0")
    assert shown["steps"][1] < len(mended.frames) - 1, "in the first pass, not where the loop ends"
    assert [frame for frame in mended.frames if frame.severity] == []
    assert outcome(before, found, before).startswith("With this line it ends by an error on line ")


def test_what_is_left_is_counted() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        out = a.sigmoid()
        out.data.mul_(2)
        out.sum().backward()
    (found,) = rec.diagnoses
    other = replace(found, kind="graph_kept")
    assert (
        outcome(rec.recording, found, replace(rec.recording, diagnoses=()))
        == "With this line nothing is found any more."
    )
    assert outcome(rec.recording, found, rec.recording) == "With this line it is still found."
    left = replace(rec.recording, diagnoses=(other, other))
    assert outcome(rec.recording, found, left) == "With this line it isn't found any more; 2 other findings are left."


def test_a_comparison_is_a_page_of_its_own(tmp_path: Path) -> None:
    recordings = []
    for factor in (2.0, 3.0):
        w = torch.ones(2, requires_grad=True)
        with seegrad.record() as rec:
            (w * factor).sum().backward()
        recordings.append(rec.recording)
    found = diff(*recordings)
    assert isinstance(found, Comparison)
    text = found.page(tmp_path / "diff.html").read_text()
    assert "The gradient of `w` is [2, 2], and [3, 3] in the other recording." in text
    assert "<title>Where two recordings differ</title>" in text


@pytest.mark.whole  # what is chosen is asked of Recordings, too
def test_beside_an_error_the_line_that_mends_a_note_is_none(tmp_path: Path) -> None:
    """It would change the program, and the error would stay."""
    loop = "total = 0\nfor _ in range(4):\n    loss = (w * 2).sum()\n    loss.backward()\n    total += loss\n"
    text = f"import torch\nw = torch.ones(2, requires_grad=True)\n{loop}"
    for name, last in (("noted.py", ""), ("raises.py", "torch.ones(2).sum().backward()\n")):
        (tmp_path / name).write_text(text + last)
        command = [sys.executable, "-m", "seegrad", "--try-fix", "both.html", name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ("+ total += loss.detach()" in done.stdout) == (not last)
        assert ("no line is known" in done.stdout) == bool(last)
