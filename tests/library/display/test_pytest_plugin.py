"""`pytest --seegrad`, run by pytest itself in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nbjudge_tests.session import first_of

TESTS = """\
import unittest
import pytest
import torch

def corrupt():
    a = torch.ones(3, requires_grad=True)
    out = a.sigmoid()
    out.data.zero_()
    out.sum().backward()

def test_wrong():
    corrupt()

@pytest.mark.gradients
def test_marked():
    corrupt()

def test_right():
    a = torch.ones(3, requires_grad=True)
    (a * a).sum().backward()
    assert a.grad.tolist() == [2.0] * 3

def test_raises():
    a = torch.ones(3, requires_grad=True)
    out = a.sigmoid()
    out.zero_()
    out.sum().backward()

class TestOldStyle(unittest.TestCase):
    def test_wrong_too(self):
        corrupt()
"""
FINDING = "test_it.py:8: WRONG GRADIENT: silent corruption"
ERROR = "seegrad: Line 26 (`out.zero_()`) overwrote `out`"


def run(folder: Path, *options: str) -> tuple[dict[str, str], str]:
    """Each test's outcome, and all that pytest printed."""
    (folder / "test_it.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-rA",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        *options,
        "test_it.py",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    outcomes = re.findall(r"^(PASSED|FAILED) test_it.py::(?:TestOldStyle::)?(\w+)", done.stdout, re.MULTILINE)
    return {name: outcome for outcome, name in outcomes}, done.stdout


def test_each_test_fails_at_the_line_that_spoiled_its_gradient(tmp_path) -> None:
    outcomes, said = run(tmp_path, "--seegrad", "--strict-markers")
    assert outcomes == {
        "test_wrong": "FAILED",
        "test_marked": "FAILED",
        "test_right": "PASSED",
        "test_raises": "FAILED",
        "test_wrong_too": "FAILED",
    }
    assert said.count(FINDING) >= 3
    assert ERROR in said


def test_without_the_option_only_the_marked_tests_are_recorded(tmp_path) -> None:
    outcomes, said = run(tmp_path, "--strict-markers")
    assert [name for name, outcome in outcomes.items() if outcome == "FAILED"] == ["test_marked", "test_raises"]
    assert ERROR not in said


CUT = """\
import torch

def test_cut():
    encoder, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    code = encoder(torch.ones(3, 2)).detach()
    head(code).sum().backward()
"""


@pytest.mark.parametrize("lang", first_of(["zh", "en"]))
def test_notes_fail_no_test_and_are_told_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str) -> None:
    monkeypatch.setenv("SEEGRAD_LANG", lang)
    (tmp_path / "test_cut.py").write_text(CUT)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_cut.py"]
    plain, seen = (
        subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True, check=False)
        for more in ([], ["--seegrad"])
    )
    assert plain.returncode == seen.returncode == 0
    assert "seegrad: " not in plain.stdout
    head, _, told = seen.stdout.partition("= seegrad: 1 ")[2].partition("\n")
    assert head.startswith({"en": "test with notes, which may be meant ", "zh": "个测试带有注意"}[lang])
    test, heading, clause = told.splitlines()[:3]
    assert (test, heading.split(" ")[0]) == ("test_cut.py::test_cut", "test_cut.py:5:")
    assert clause.startswith("    `encoder.weight`")
    assert "`code = encoder(torch.ones(3, 2)).detach()`" in clause
    assert clause.endswith({"en": " cut the graph", "zh": "切断了计算图"}[lang])


@pytest.mark.parametrize("loaded", ["torch", "IPython"])
def test_switched_off_it_loads_nothing(loaded: str) -> None:
    code = f"import seegrad.display.pytest_plugin, sys; sys.exit({loaded!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
