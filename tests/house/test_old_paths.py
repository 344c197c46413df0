"""The paths that configurations and habits may hold still lead to the same things, and say where these are now."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
OLD = {  # the old path → the new one, and what is found at both
    "grader.nbgrader_plugin": ("nbjudge.plugin", ("HideTests", "SandboxedAutograde", "install")),
    "grader.exporters": ("nbjudge.course.exporters", ("CanvasCsv", "GradesCsv", "MoodleCsv")),
    "seegrad.offline": ("seegrad.display.offline", ("OfflineExporter",)),
}


@pytest.mark.parametrize("old", OLD)
def test_an_old_path_gives_the_same_and_warns_whoever_takes_it(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    new, names = OLD[old]
    monkeypatch.delitem(sys.modules, old, raising=False)
    plain = [finder for finder in sys.meta_path if "_pytest" not in type(finder).__module__]
    monkeypatch.setattr(sys, "meta_path", plain)  # pytest's own stands between an import and its caller
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}") as told:
        exec(f"import {old}", {})  # noqa: S102  # a caller of its own, which the warning has to name
    assert [each.filename for each in told] == ["<string>"]
    for name in names:
        assert getattr(sys.modules[old], name) is getattr(importlib.import_module(new), name)


def test_what_has_not_moved_says_nothing() -> None:
    """`seegrad.check`, by which every exercise asks, keeps its place."""
    code = "import seegrad.check as check; check.expect, check.call, check.answers, check.score, check.CheckFailed"
    done = subprocess.run([sys.executable, "-W", "default", "-c", code], capture_output=True, text=True, check=True)
    assert "Deprecat" not in done.stderr


@pytest.mark.parametrize("place", [ROOT, None], ids=["in the clone", "elsewhere, by the editable install"])
def test_the_old_command_does_the_new_one_s_work(tmp_path: Path, place: Path | None) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "grader", "doctor"], cwd=place or tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "seccomp" in done.stdout
    assert "DeprecationWarning: python -m grader is now nbjudge" in done.stderr


def test_nbconvert_still_finds_the_offline_page(tmp_path: Path) -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A title of its own")])
    nbformat.write(book, tmp_path / "book.ipynb")
    command = [sys.executable, "-m", "nbconvert", "--to", "seegrad.offline.OfflineExporter", "book.ipynb"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert "A title of its own" in (tmp_path / "book.html").read_text(encoding="utf-8")
