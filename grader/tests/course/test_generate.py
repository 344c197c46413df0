"""The rows of an assignment where its release is there already."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nbjudge.__main__ import main
from nbjudge.course.layout import Course, held_alone
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import nbgrader


def added(path: Path, text: str) -> None:
    """One more cell that explains."""
    document = json.loads(path.read_text(encoding="utf-8"))
    document["cells"].append({"cell_type": "markdown", "id": "one-more", "metadata": {}, "source": text})
    path.write_text(json.dumps(document), encoding="utf-8")


def test_a_release_stays_as_it_is_until_it_is_to_be_renewed(tmp_path: Path, monkeypatch, capsys) -> None:
    root = small.make(tmp_path / "course")
    monkeypatch.chdir(root)
    assert main(["generate", small.NAME]) == 0
    released = root / "release" / "en" / small.NAME
    assert capsys.readouterr().out == (
        f"small: 5 questions, 12 points, in the gradebook; released to {released}. What students hand in goes into "
        "submitted/STUDENT/small, then `nbjudge autograde small`\n"
    )
    source = min((root / "source" / small.NAME).glob("*.ipynb"))
    release = root / "release" / "en" / small.NAME / source.name
    before = release.read_bytes()
    for path in root.glob("gradebook.db*"):
        path.unlink()
    assert main(["generate", small.NAME]) == 0
    assert "up to date" in capsys.readouterr().out
    assert (root / "gradebook.db").is_file()
    added(source, "And one more.")
    assert main(["generate", small.NAME]) == 1
    told = capsys.readouterr().out
    assert "differs from what the source makes" in told
    assert "over what was written in it" in told
    assert release.read_bytes() == before
    assert main(["generate", small.NAME, "--force"]) == 0
    assert "And one more." in release.read_text()


def test_nothing_is_generated_while_somebody_grades(tmp_path: Path, monkeypatch, capsys) -> None:
    root = small.make(tmp_path / "course")
    monkeypatch.chdir(root)
    with held_alone(Course(root, "").state):
        assert main(["generate", small.NAME]) == 2
        told = nbgrader(root, "generate_assignment", small.NAME, status=1)
    for said in (told, capsys.readouterr().err):
        assert f"another grader is at work on this course: process {os.getpid()} on " in said
    assert not (root / "release").exists()
    assert main(["generate", small.NAME]) == 0
    assert (root / "release").is_dir()


def test_a_name_that_is_no_assignment_is_said(tmp_path: Path, monkeypatch, capsys) -> None:
    root = small.make(tmp_path / "course")
    monkeypatch.chdir(root)
    with pytest.raises(SystemExit):
        main(["generate"])
    assert main(["generate", "nothing"]) == 2
    assert "nothing" in capsys.readouterr().err
