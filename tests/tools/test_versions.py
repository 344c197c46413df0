"""`make test-torch`: which tests it runs, what it reads in pytest's output, and the page it writes."""

from __future__ import annotations

import datetime
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from seegrad.capture.probes.torch_private import TRIED
from tools.evidence import versions
from tools.words.marks import between_marks

ROOT = Path(__file__).parents[2]


def test_the_library_s_tests_are_those_that_import_it_and_no_other_part(tmp_path: Path) -> None:
    for name, text in {
        "test_library.py": "import seegrad",
        "test_inside.py": "def test_x():\n    from seegrad.model.recording import Node",
        "test_both.py": "import seegrad\nfrom nbjudge.grading import engine",
        "test_course.py": "from tools import book",
        "test_browser.py": "import seegrad\nfrom tests.browser.harness import chromium",
        "programs.py": "import seegrad",
        "library/test_main.py": "import subprocess",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = [path.name for path in versions.library_tests(tmp_path)]
    assert found == ["test_main.py", "test_inside.py", "test_library.py"]


def test_the_recorder_s_and_the_diagnoses_tests_are_among_them() -> None:
    found = {path.name for path in versions.library_tests()}
    assert {"test_capture.py", "test_diagnose.py", "test_transparency.py", "test_main.py"} <= found
    assert not {"test_engine.py", "test_book.py", "test_chapter.py"} & found


@pytest.mark.whole
def test_they_import_without_the_grader_and_the_course(tmp_path: Path) -> None:
    """What the other environments don't install: collecting must not need it."""
    block = "import sys\nfor name in ('nbgrader', 'jupyterlab', 'notebook'):\n    sys.modules[name] = None\n"
    (tmp_path / "sitecustomize.py").write_text(block)
    tests = [*(str(path) for path in versions.library_tests()), *versions.COURSE]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_constraints_leave_torch_open_and_hold_the_rest() -> None:
    text = (ROOT / "constraints.txt").read_text()
    left = versions.without_torch(text)
    assert len(text.splitlines()) - len(left.splitlines()) == 1
    assert "numpy==" in left


@pytest.mark.parametrize(
    ("output", "closing", "failed"),
    [
        ("....\n12 passed in 3.21s\n", "12 passed", ()),
        ("=== 1 failed, 2 passed, 3 skipped in 61.00s (0:01:01) ===", "1 failed, 2 passed, 3 skipped", ()),
        ("FAILED tests/test_a.py::test_b[x - y]\nERROR tests/test_c.py\n1 failed, 1 error in 0.1s",
         "1 failed, 1 error", ("tests/test_a.py::test_b[x", "tests/test_c.py")),
        ("", "pytest printed nothing", ()),
    ],
)  # fmt: skip
def test_pytest_s_output_is_read(output: str, closing: str, failed: tuple[str, ...]) -> None:
    assert versions.outcome("2.9.1", output) == versions.VersionOutcome("2.9.1", closing, failed)


def test_the_page_has_room_for_the_counts() -> None:
    page = versions.PAGE.read_text(encoding="utf-8")
    outcomes = [
        versions.VersionOutcome("2.9.1+cu128", "5 passed", ()),
        versions.VersionOutcome("2.11.0", "1 failed", ("t.py::x",)),
    ]
    text = versions.table(outcomes, "3.11.7", datetime.date(2026, 1, 2))
    new = between_marks(page, text, "counts")
    assert "2026-01-02" in new
    assert "| 2.9.1+cu128 | 5 passed | – |\n| 2.11.0 | 1 failed | t.py::x |" in new
    assert new.split("<!-- counts -->")[0] == page.split("<!-- counts -->")[0]
    assert new.split("<!-- /counts -->")[1] == page.split("<!-- /counts -->")[1]


def test_the_page_begins_with_the_answer_for_a_python_and_a_torch() -> None:
    """What is claimed of Pythons is what the package says, of torch what it warns by."""
    page = versions.PAGE.read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = [each.rpartition(" ")[2] for each in project["classifiers"] if ":: Python :: 3." in each]
    python, torch = (
        line.split("|")[1:-1] for line in page.splitlines()[:8] if line.startswith(("| Python", "| torch"))
    )
    assert python[1].strip() == ", ".join(pythons)
    assert torch[1].strip() == f"{TRIED[0]} and later"
    assert torch[2].strip().startswith(", ".join(TRIED))
    assert project["optional-dependencies"]["torch"] == [f"torch>={TRIED[0]}"]


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="no marks <!-- counts -->"):
        between_marks("a page", "x", "counts")
