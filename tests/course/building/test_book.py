"""The course builder: masters become notebooks, nbgrader's own format and back, the same bytes every time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tools import book
from tools.course.chapters import executed
from tools.course.folds import presented
from tools.course.masters import BookError, canonical, cell_ids, from_notebook, read_master, to_notebook
from tools.course.releases import released

CHAPTER = """\
# %% [markdown]
# # A chapter

# %%
import torch

x = torch.ones(2, requires_grad=True)
x

# %% tags=["raises-exception"]
x.add_(1)
"""

ASSIGNMENT = """\
# %% [markdown]
# # An assignment

# %%
import torch


# %% grade_id="double" kind="solution"
def double(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION


# %% grade_id="double_test" kind="test" points=60
assert double(1) == 2
### BEGIN HIDDEN TESTS
assert double(21) == 42
### END HIDDEN TESTS

# %% [markdown] grade_id="why" kind="manual" points=40
# Because.

# %% [markdown] grade_id="rubric" kind="given"
# 40 points for a reason.
"""


@pytest.fixture
def course(tmp_path: Path) -> book.CourseFiles:
    """A course of one chapter and one assignment, not yet built."""
    for folder, text in (("notebooks", CHAPTER), ("source", ASSIGNMENT)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "01_first.py").write_text(text)
    return book.CourseFiles(tmp_path)


def only_assignment(course: book.CourseFiles) -> book.CourseFiles:
    """Without the chapter, whose kernel takes seconds."""
    (course.root / "notebooks" / "01_first.py").unlink()
    return course


def only_chapter(course: book.CourseFiles) -> book.CourseFiles:
    (course.root / "source" / "01_first.py").unlink()
    return course


def master_of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "master.py"
    path.write_text(text)
    return path


def cells(path: Path) -> dict[str, Any]:
    return {cell.id: cell for cell in nbformat.read(path, as_version=4).cells}


def assert_built(course: book.CourseFiles, *paths: str) -> None:
    assert [str(path.relative_to(course.root)) for path in book.build(course)] == list(paths)
    assert book.check(course) == []
    assert book.build(course) == [], "a second build has to give the same bytes"


def test_an_assignment_is_built_checked_and_built_again(course: book.CourseFiles) -> None:
    built = ("source/01_first/01_first.ipynb", "release/en/01_first/01_first.ipynb")
    assert_built(only_assignment(course), *built)


def test_a_chapter_is_built_checked_and_built_again(course: book.CourseFiles) -> None:
    built = ("notebooks/en/01_first.ipynb", "notebooks/executed/en/01_first.ipynb")
    assert_built(only_chapter(course), *built)


def test_unrun_everything_is_compared_but_what_cells_put_out(course: book.CourseFiles) -> None:
    """Outputs are nbval's to compare: that runs the chapter once, and is strict."""
    path = only_chapter(course).executed("01_first")
    book.build(course)
    built = path.read_text()
    changes = {"# A chapter": "# Another", "x.add_(1)": "x.add_(2)", "raises-exception": "other", ": 2,": ": 7,"}
    for old, new in changes.items():
        path.write_text(built.replace(old, new))
        assert path.read_text() != built
        assert len(book.check(course, run=False)) == 1, old
    path.write_text(built.replace("tensor([1., 1.]", "tensor([2., 2.]"))
    assert path.read_text() != built
    assert book.check(course, run=False) == []
    assert len(book.check(course)) == 1


def test_what_a_learner_opens_is_the_executed_chapter_without_its_outputs(course: book.CourseFiles) -> None:
    book.build(only_chapter(course))
    opened, executed_copy = (
        nbformat.read(path("01_first"), as_version=4) for path in (course.notebook, course.executed)
    )
    assert sum(bool(cell.outputs) for cell in executed_copy.cells if cell.cell_type == "code") == 2
    for cell in executed_copy.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    assert opened == executed_copy


def test_what_answers_a_prediction_is_folded_and_its_outputs_are_marked(tmp_path: Path) -> None:
    text = """\
# %% [markdown]
# ## A sum
#
# **Predict** it.

# %%
1 + 1

# %% [markdown]
# Two.
#
# **Change** it.

# %%
# %%see --ask leaves
x = 1

# %% [markdown]
# **Repair** yours first.

# %%
x = 2
"""
    read = read_master(master_of(tmp_path, text))
    _, code, told, asking, _, repair = presented(tmp_path, read.name, to_notebook(read), "en").cells
    assert told.source == (
        "<details><summary>Predicted and run? Explain it to yourself, then open this.</summary>\n\nTwo.\n\n</details>"
        "\n\n**Change** it."
    )
    assert code.metadata.tags == ["hide-output"]
    assert "tags" not in asking.metadata, "a picture that asks waits by itself"
    assert repair.metadata == {"tags": ["hide-output", "hide-input"], "jupyter": {"source_hidden": True}}


def test_what_leads_on_stays_open_and_what_only_shows_is_no_prediction(tmp_path: Path) -> None:
    text = """\
# %% [markdown]
# **Predict** it.

# %%
1 + 1

# %% [markdown]
# Two.
#
# And here is another sum:

# %%
1 + 2

# %% [markdown]
# Three.
"""
    read = read_master(master_of(tmp_path, text))
    _, _, told, _, shown = (cell.source for cell in presented(tmp_path, read.name, to_notebook(read), "en").cells)
    assert told.endswith("</details>\n\nAnd here is another sum:")
    assert shown.startswith("<details><summary>Run the cell, look at what it shows, then open this.</summary>")


def test_one_master_can_be_checked_by_name(course: book.CourseFiles, capsys: pytest.CaptureFixture[str]) -> None:
    book.build(only_assignment(course))
    root = ["--root", str(course.root)]
    assert book.main(["--check", "01_first", *root]) == 0
    assert book.main(["build", "02_second", *root]) == 1
    assert "no source/02_second.py" in capsys.readouterr().err


def test_an_executed_chapter_keeps_nothing_of_this_machine(course: book.CourseFiles) -> None:
    made = executed(read_master(course.chapters()[0]), course.root)
    text = nbformat.writes(made)
    assert str(Path(nbformat.__file__).parents[1]) not in text, "a path of this machine"
    assert "execution" not in {key for cell in made.cells for key in cell.metadata}
    error = made.cells[2].outputs[0]
    assert error.ename == "RuntimeError"
    assert any("x.add_" in entry for entry in error.traceback), "the learner's own line stays"


def test_a_release_has_neither_solution_nor_hidden_test(course: book.CourseFiles) -> None:
    book.build(only_assignment(course))
    text = (course.release("01_first") / "01_first.ipynb").read_text()
    assert "2 * x" not in text
    assert "42" not in text
    assert "Because." not in text
    made = cells(course.release("01_first") / "01_first.ipynb")
    assert made["double"].source == "def double(x):\n    # YOUR CODE HERE\n    raise NotImplementedError()"
    assert made["why"].source == "YOUR ANSWER HERE"
    assert made["double_test"].metadata.nbgrader.points == 60
    assert not made["rubric"].metadata.editable


def test_data_files_of_an_assignment_are_released_with_it(course: book.CourseFiles) -> None:
    data = course.source("01_first").parent / "data" / "numbers.csv"
    data.parent.mkdir(parents=True)
    data.write_text("1,2\n")
    book.build(only_assignment(course))
    assert (course.release("01_first") / "data" / "numbers.csv").read_text() == "1,2\n"


def test_check_names_the_file_and_the_command_that_mends_it(course: book.CourseFiles) -> None:
    book.build(only_assignment(course))
    stray = course.root / "release" / "en" / "00_gone" / "00_gone.ipynb"
    stray.parent.mkdir()
    stray.write_text("{}")
    release = course.release("01_first") / "01_first.ipynb"
    release.write_text(release.read_text().replace("YOUR CODE HERE", "MY CODE HERE"))
    course.source("01_first").unlink()
    assert book.check(course) == [
        "source/01_first/01_first.ipynb is missing. Run: python -m tools.book build",
        "release/en/01_first/01_first.ipynb isn't what its master makes. Run: python -m tools.book build",
        "release/en/00_gone/00_gone.ipynb has no master. Run: git rm release/en/00_gone/00_gone.ipynb",
    ]


def edit_source(course: book.CourseFiles, old: str, new: str) -> None:
    """What an instructor does in JupyterLab: edit a cell, run it, save."""
    path = course.source("01_first")
    made = nbformat.read(path, as_version=4)
    for cell in made.cells:
        cell.source = cell.source.replace(old, new)
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = 7, [nbformat.v4.new_output("stream", text="ran\n")]
    nbformat.write(made, path)


def test_sync_carries_an_instructor_s_edit_back(course: book.CourseFiles) -> None:
    book.build(only_assignment(course))
    edit_source(course, "2 * x", "x + x")
    assert any("--sync" in complaint for complaint in book.check(course))
    with pytest.raises(BookError, match="--sync"):
        book.build(course)
    assert book.sync(course) == [course.assignments()[0]]
    assert course.assignments()[0].read_text() == ASSIGNMENT.replace("2 * x", "x + x")
    book.build(course)
    assert book.check(course) == []
    assert book.sync(course) == []


def test_running_a_source_notebook_is_no_edit(course: book.CourseFiles) -> None:
    book.build(only_assignment(course))
    edit_source(course, "nothing", "nothing")
    assert book.sync(course) == []
    assert course.source("01_first") in book.build(course)


def test_two_edits_at_once_are_left_to_the_instructor(course: book.CourseFiles) -> None:
    book.build(only_assignment(course))
    edit_source(course, "2 * x", "x + x")
    course.assignments()[0].write_text(
        ASSIGNMENT.replace("A chapter", "Another").replace("60", "50").replace("40", "50")
    )
    with pytest.raises(BookError, match="both edited"):
        book.sync(course)


def test_missing_leaves_a_learner_s_edits_alone(course: book.CourseFiles) -> None:
    book.build(only_assignment(course))
    release = course.release("01_first") / "01_first.ipynb"
    release.write_text("mine")
    assert book.build(course, missing=True) == []
    assert release.read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1\n", "master.py: no cell"),
        ("import os\n\n# %%\nx = 1\n", "master.py:1: text before the first"),
        ("# %%\nx\n\n# %% colour=3\nx\n", "master.py:4: unknown option `colour`"),
        ('# %% grade_id="a"\nx\n', "master.py:1: `grade_id` and `kind` go together"),
        ('# %% grade_id="a" kind="quiz"\nx\n', 'kind="quiz" is unknown. Use one of solution'),
        ('# %% grade_id="a b" kind="given"\nx\n', "letters, digits"),
        ('# %% grade_id="a" kind="test"\nx\n', "`points` belongs to"),
        ('# %% grade_id="a" kind="given" points=3\nx\n', "`points` belongs to"),
        ('# %% [markdown] grade_id="a" kind="test" points=3\n# x\n', "a test is a code cell"),
        ('# %% grade_id="a" kind="solution"\nx = 1\n', "the whole cell would be removed"),
        ('# %% grade_id="a" kind="solution"\n### BEGIN SOLUTION\nx = 1\n', "don't pair"),
        ("# %%\n### BEGIN HIDDEN TESTS\nx\n### END HIDDEN TESTS\n", "in a cell of kind None"),
        ('# %% grade_id="a" kind="given"\nx\n\n# %% grade_id="a" kind="given"\ny\n', "master.py:4: .* line 1"),
    ],
)
def test_a_broken_master_is_refused_with_file_line_and_remedy(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BookError, match=complaint):
        read_master(master_of(tmp_path, text))


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        ("# %%\n1 / 0\n", "master.py:4: the chapter doesn't run through"),
        ('# %% tags=["raises-exception"]\n1\n', "master.py:4: tagged .* didn't raise"),
        ("# %%\nimport sys\nprint(1, file=sys.stderr)\n", "master.py:4: writes to stderr"),
    ],
)
def test_a_chapter_that_doesn_t_run_as_written_is_refused(tmp_path: Path, cell: str, complaint: str) -> None:
    with pytest.raises(BookError, match=complaint):
        executed(read_master(master_of(tmp_path, f"# %%\nx = 1\n\n{cell}")), tmp_path)


def test_an_assignment_has_a_hundred_points(course: book.CourseFiles) -> None:
    path = only_assignment(course).assignments()[0]
    path.write_text(ASSIGNMENT.replace("points=60", "points=6"))
    with pytest.raises(BookError, match="add up to 46"):
        book.build(course)


def test_nbgrader_s_own_complaint_reaches_the_author() -> None:
    broken = json.dumps({"cells": [], "metadata": {}, "nbformat": 99, "nbformat_minor": 0}).encode()
    with pytest.raises(BookError, match="nbgrader can't release 01_first"):
        released("01_first", {"01_first.ipynb": broken})


def test_a_task_cell_can_t_be_said_in_a_master(course: book.CourseFiles) -> None:
    made = to_notebook(read_master(course.assignments()[0]))
    made.cells[-1].metadata["nbgrader"]["task"] = True
    with pytest.raises(BookError, match="cell 6 is a task"):
        from_notebook(made, Path("x.ipynb"))


def test_ids_are_the_grade_id_or_a_hash_and_never_twice_the_same(tmp_path: Path) -> None:
    text = '# %%\nx\n\n# %%\nx\n\n# %% grade_id="a" kind="given"\nx\n'
    first = cell_ids(read_master(master_of(tmp_path, text)))
    assert first == cell_ids(read_master(master_of(tmp_path, text)))
    assert len(set(first)) == 3
    assert first[2] == "a"


SOURCES = st.text(alphabet="abcx=1 +()#%!\n\"'é→", max_size=60).map(str.strip).filter(bool)
CELLS = st.tuples(st.sampled_from(["code", "markdown"]), SOURCES)


@given(st.lists(CELLS, min_size=1, max_size=4))
@example([("code", "%%")])
@example([("code", '"' * 3), ("code", "1")])
@example([("code", "a"), ("markdown", "b\n# %%\nc")])
@example([("markdown", "#!b")])
@example([("code", "##+")])
def test_a_notebook_survives_the_way_to_a_master_and_back(tmp_path_factory: Any, drawn: list[tuple[str, str]]) -> None:
    made = nbformat.v4.new_notebook()
    for kind, source in drawn:
        make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
        made.cells.append(make(source))
    try:
        text = from_notebook(made, Path("x.ipynb"))
    except BookError:
        assert any(mark in source for _, source in drawn for mark in ("%%", "##+", "#!", '"' * 3, "'" * 3))
        return
    path = master_of(tmp_path_factory.mktemp("m"), text)
    back = to_notebook(read_master(path))
    assert [(cell.cell_type, cell.source) for cell in back.cells] == drawn
    assert canonical(read_master(path)) == path.read_text()
