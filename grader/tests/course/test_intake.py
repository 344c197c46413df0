"""What students may hand in: read, or refused with a sentence; nothing executed, followed, or read when huge."""

from __future__ import annotations

import json
import os
import socket
import tracemalloc
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbjudge.course.intake import Unreadable, canonical, moment, read, stamp, with_marks
from nbjudge.course.intake import handed_in as handed_in_at
from nbjudge.model import Limits, Submission

CODE = {"cell_type": "code", "source": ["x = 1\n", "x"], "metadata": {}, "outputs": [{"a": 1}], "execution_count": 3}


def book(*cells: Any, **fields: Any) -> str:
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | fields)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "submitted" / "ada" / "ps1"
    folder.mkdir(parents=True)
    return folder


def handed_in(folder: Path, content: str | bytes, limits: Limits | None = None) -> Submission:
    (folder / "ps1.ipynb").write_bytes(content if isinstance(content, bytes) else content.encode())
    return read(folder, "ada", "ps1", limits)


def test_a_notebook_is_rebuilt_without_outputs_and_without_what_grading_does_not_need(folder: Path) -> None:
    odd = {**CODE, "metadata": {"tags": ["skip-execution"], "nbgrader": {"grade_id": "q"}, "deletable": False}}
    submission = handed_in(folder, book(odd, metadata={"widgets": {"state": 1}}))
    assert submission.refusal is None
    notebook = nbformat.reads(submission.notebooks["ps1"], as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata == {}
    (cell,) = notebook.cells
    assert (cell.source, cell.outputs, cell.execution_count) == ("x = 1\nx", [], None)
    assert cell.metadata == {"nbgrader": {"grade_id": "q"}, "deletable": False}


def test_other_files_and_the_timestamp_come_along(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "a.csv").write_bytes(b"1,2")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_bytes(b"")
    (folder / "timestamp.txt").write_text("2026-02-03 12:00:00 UTC\n")
    submission = handed_in(folder, book(CODE))
    assert submission.files == {"data/a.csv": b"1,2"}
    assert submission.timestamp == "2026-02-03 12:00:00 UTC"


def test_format_3_is_upgraded(folder: Path) -> None:
    cells = [
        {"cell_type": "heading", "source": "T", "level": 2},
        {"cell_type": "code", "input": ["1"], "outputs": []},
    ]
    submission = handed_in(folder, json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}], "metadata": {}}))
    notebook = nbformat.reads(submission.notebooks["ps1"], as_version=4)
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == [("markdown", "# T"), ("code", "1")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (book(CODE)[:-9], "damaged at line 1"),
        (b"\x89PNG\r\n", "not UTF-8"),
        ("", "damaged at line 1"),
        (book(CODE)[:-9], "Take the copy that you worked in, or a checkpoint (.ipynb_checkpoints beside it)"),
        ("[1, 2]", "a list, not an object"),
        ("{}", "no list of cells"),
        ('{"cells": "none"}', "no list of cells"),
        ('{"cells": [5]}', "cell 1 of 'ps1.ipynb' is not an object"),
        ('{"cells": [{"cell_type": "html", "source": ""}]}', "neither code nor text"),
        ('{"cells": [{"cell_type": "code", "source": {"a": 1}}]}', "neither code nor text"),
        ('{"cells": [{"cell_type": ["code"], "source": "x"}]}', "neither code nor text"),
        ('{"cells": [], "nbformat": 5}', "notebook format 5"),
        ("[" * 200_000, "nested too deeply"),
        ('{"cells": [{"cell_type": "code", "source": "\\ud800"}]}', "not valid Unicode"),
        (json.dumps({"cells": [{"cell_type": "code", "source": ""}] * 1001}), "1001 cells"),
        (json.dumps({"cells": [{"cell_type": "code", "source": "x" * 1_000_001}]}), "cell 1 of 'ps1.ipynb' is longer"),
        ('{"cells": [], "metadata": [' + "[], " * 600_000 + "[]]}", "too many parts; clear all outputs"),
        (
            '{"cells": [], "metadata": {' + ", ".join(f'"{n}": 0' for n in range(600_000)) + "}}",
            "too many parts; clear all outputs",
        ),
    ],
)
def test_what_is_no_notebook_is_refused_with_its_reason(folder: Path, content: str | bytes, reason: str) -> None:
    submission = handed_in(folder, content)
    assert submission.refusal is not None
    assert reason in submission.refusal
    assert submission.notebooks == {}


def test_a_hundred_megabytes_on_one_line_are_refused_without_being_read(folder: Path) -> None:
    with (folder / "ps1.ipynb").open("wb") as file:
        file.truncate(100 << 20)  # a hole: it takes no room on the disk
    tracemalloc.start()
    submission = read(folder, "ada", "ps1")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert submission.refusal is not None
    assert "'ps1.ipynb' is too large: 100.0 MB, allowed are 16.0 MB" in submission.refusal
    assert peak_bytes < 1 << 20


def test_many_files_together_are_refused_too(folder: Path) -> None:
    for number in range(3):
        (folder / f"{number}.bin").write_bytes(b"0" * 600)
    submission = handed_in(folder, book(CODE), Limits(submission_bytes=1500))
    assert submission.refusal is not None
    assert submission.refusal == "the files together are larger than 0.0 MB"


@pytest.mark.parametrize("kind", ["file", "folder", "submission", "student", "pipe", "socket"])
def test_only_plain_files_are_followed(
    folder: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "ps1.ipynb").write_text(book(CODE))
    asked = folder
    if kind == "file":
        (folder / "ps1.ipynb").symlink_to(secret / "ps1.ipynb")
    elif kind == "folder":
        (folder / "data").symlink_to(secret)
    elif kind == "submission":
        asked = folder.with_name("ps2")
        asked.symlink_to(secret)
    elif kind == "student":
        (tmp_path / "submitted" / "eve").symlink_to(folder.parent)
        asked = tmp_path / "submitted" / "eve" / "ps1"
    elif kind == "pipe":
        os.mkfifo(folder / "ps1.ipynb")
    else:
        monkeypatch.chdir(folder)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("ps1.ipynb")
    submission = read(asked, "eve", "ps1")
    assert submission.refusal is not None
    assert "hand in the files themselves" in submission.refusal


def test_a_folder_of_thousands_of_files_is_refused(folder: Path) -> None:
    for number in range(1001):
        (folder / f"{number}").touch()
    assert "more than 1000 files" in str(read(folder, "ada", "ps1").refusal)


def test_a_file_instead_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "ps1").touch()
    assert "is a file, not a folder" in str(read(tmp_path / "ps1", "ada", "ps1").refusal)


def test_the_same_bytes_give_the_same_text_and_every_cell_its_own_id() -> None:
    text = book(*[{**CODE, "id": "same"}] * 3, {**CODE, "id": "bad id!"})
    first = canonical(text.encode(), "a")
    assert canonical(text.encode(), "a") == first
    ids = [cell["id"] for cell in json.loads(first)["cells"]]
    assert len(set(ids)) == 4
    assert ids[0] == "same"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["cells", "cell_type", "source", "metadata", "id", "worksheets", "attachments", "nbformat"]
            ),
            inner | st.sampled_from(["code", "markdown", "raw", "heading"]),
            max_size=5,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_any_json_is_a_valid_notebook_or_a_refusal(value: Any) -> None:
    try:
        text = canonical(json.dumps(value).encode(), "a.ipynb")
    except Unreadable:
        return
    nbformat.validate(nbformat.reads(text, as_version=4))


# ---------------------------------------------------------------------- other editors

COLAB = {
    "nbformat": 4,
    "nbformat_minor": 0,
    "metadata": {"colab": {"provenance": [], "toc_visible": True}, "kernelspec": {"name": "python3"}},
    "cells": [
        {
            "cell_type": "markdown",
            "source": ["# One\n", "text"],
            "metadata": {"id": "view-in-github", "colab_type": "text"},
        },
        {
            "cell_type": "code",
            "source": ["#@title Answer\n", "x = 1"],
            "metadata": {"id": "Xy_-12ab", "nbgrader": {"grade_id": "q"}, "cellView": "form", "outputId": "3f"},
            "execution_count": 3,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}],
        },
    ],
}
VSCODE = {
    "nbformat": 4,
    "nbformat_minor": 2,
    "metadata": {"language_info": {"name": "python"}, "orig_nbformat": 4, "vscode": {"interpreter": {"hash": "ab"}}},
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": "# One\ntext", "attachments": {}},
        {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {"vscode": {"languageId": "python"}, "nbgrader": {"grade_id": "q"}},
            "outputs": [{"name": "stderr", "output_type": "error", "evalue": "x", "ename": "y", "traceback": []}],
            "source": ["#@title Answer\n", "x = 1"],
        },
    ],
}
OLD = {
    "nbformat": 3,
    "nbformat_minor": 0,
    "metadata": {"name": "one"},
    "worksheets": [
        {
            "metadata": {},
            "cells": [
                {"cell_type": "markdown", "metadata": {}, "source": ["# One\n", "text"]},
                {
                    "cell_type": "code",
                    "collapsed": False,
                    "input": ["#@title Answer\n", "x = 1"],
                    "language": "python",
                    "metadata": {"nbgrader": {"grade_id": "q"}},
                    "outputs": [{"output_type": "pyout", "prompt_number": 1, "text": ["1"]}],
                    "prompt_number": 1,
                },
            ],
        }
    ],
}


@pytest.mark.parametrize("made", [COLAB, VSCODE, OLD], ids=["Colab", "VS Code", "nbformat 3"])
def test_notebooks_of_other_editors_are_accepted(folder: Path, made: dict[str, Any]) -> None:
    submission = handed_in(folder, json.dumps(made))
    notebook = nbformat.reads(submission.notebooks["ps1"], as_version=4)
    nbformat.validate(notebook)
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == [
        ("markdown", "# One\ntext"),
        ("code", "#@title Answer\nx = 1"),
    ]
    assert [cell.metadata.get("nbgrader") for cell in notebook.cells] == [None, {"grade_id": "q"}]


@pytest.mark.parametrize("odd", [["deep"], {"a": 1}, "yes", None, 1])
def test_flags_of_a_cell_are_flags_or_gone(folder: Path, odd: Any) -> None:
    marks = {"grade_id": "q", "points": odd, "schema_version": odd}
    cell = {**CODE, "metadata": {"deletable": odd, "editable": odd, "nbgrader": marks}}
    (kept,) = json.loads(handed_in(folder, book(cell)).notebooks["ps1"])["cells"]
    assert kept["metadata"] == {"nbgrader": {"grade_id": "q"}}


def test_a_flag_nested_seven_hundred_deep_is_gone_too(folder: Path) -> None:
    deep = book({**CODE, "metadata": {"deletable": "DEEP"}}).replace('"DEEP"', "[" * 700 + "]" * 700)
    (kept,) = json.loads(handed_in(folder, deep).notebooks["ps1"])["cells"]
    assert kept["metadata"] == {}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("other.ipynb/a.txt", "'other.ipynb' is a folder, not a notebook"),
        ("data/ps1.ipynb/a.txt", "'ps1.ipynb' is a folder, not a notebook"),
        ("/".join(["d" * 60] * 4), f"the path of {'d' * 60!r} is longer than 200 bytes"),
        ("/".join("d" * 150), "the path of 'd' is longer than 200 bytes"),
    ],
)
def test_a_path_that_the_graded_folder_can_t_have_is_refused(folder: Path, path: str, reason: str) -> None:
    (folder / path).parent.mkdir(parents=True)
    (folder / path).write_text("")
    refusal = handed_in(folder, book(CODE)).refusal
    assert refusal is not None
    assert reason in refusal


def test_many_notebooks_count_together(folder: Path) -> None:
    for number in range(4):
        (folder / f"more{number}.ipynb").write_text(book({**CODE, "source": "x" * 300_000}))
    refusal = handed_in(folder, book(CODE), Limits(submission_bytes=1 << 20)).refusal
    assert refusal == "the files together are larger than 1.0 MB"


@given(st.text("0123456789:-+ .TZUtcADpmJan,/", max_size=60) | st.text(max_size=60))
def test_any_timestamp_is_a_moment_or_none_and_ours_is_read_as_it_was_meant(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dateutil's, of time zones that it doesn't know
        found = moment(text)
    assert found is None or moment(stamp(found)) == found


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "nothing", "large"])
def test_a_timestamp_that_is_no_small_file_is_none(kind: str, folder: Path) -> None:
    path = folder / "timestamp.txt"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        (folder / "other.txt").write_text("2026-02-03")
        path.symlink_to("other.txt")
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        path.write_text("2026-02-03" + " " * 300)
    assert handed_in_at(folder) is None


ANY: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ONE_CELL = st.fixed_dictionaries(
    {"cell_type": st.just("code") | ANY, "source": st.just("x") | ANY},
    optional={"metadata": ANY | st.fixed_dictionaries({"nbgrader": ANY}), "id": ANY, "attachments": ANY, "input": ANY},
)
ANY_BOOK = st.fixed_dictionaries(
    {},
    optional={"cells": st.lists(ONE_CELL | ANY, max_size=3) | ANY, "nbformat": ANY, "worksheets": ANY, "metadata": ANY},
)


@given(ANY_BOOK)
def test_whatever_stands_in_a_field_is_read_or_refused(fields: dict[str, Any]) -> None:
    content = json.dumps(fields).encode()
    for reads in (canonical, with_marks):
        with suppress(Unreadable):
            reads(content, "ps1.ipynb")
