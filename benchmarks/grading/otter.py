"""otter-grader without Docker on an equivalent assignment: the same answers, each test cell as a test file of otter's.

`python -m benchmarks.grading.otter COURSE` is the child: it grades what was handed in, one after the other, through
otter's own `grade_submission`, and writes otter.json: student → the questions that got everything.
"""

from __future__ import annotations

import importlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import nbformat

from benchmarks.library.programs import NotInstalled
from tests.course.answer_files import ASSIGNMENT

# otter's tests pass or fail: a share of the points that a cell declares as its last value is a failure.
TEST = """from otter.test_files import test_case
import ast
OK_FORMAT = False
name = {name!r}
points = 1
SOURCE = {source!r}

@test_case()
def checked(env):
    names, tree = dict(env), ast.parse(SOURCE)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    reached = eval(compile(ast.Expression(last.value), name, "eval"), names) if last else None
    assert not isinstance(reached, float) or reached >= 1, reached
"""
CONFIG = {"lang": "python", "print_summary": False, "print_score": False}
PASSED = 1.0


def is_there() -> bool:
    """Is otter-grader installed?"""
    return importlib.util.find_spec("otter") is not None


def prepare(course: Path) -> None:
    """Beside the course's own notebooks: otter's tests, and what was handed in without nbgrader's test cells."""
    source = nbformat.read(course / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", as_version=4)  # type: ignore[no-untyped-call]  # nbformat has no types
    with zipfile.ZipFile(course / "autograder.zip", "w") as archive:
        archive.writestr("otter_config.json", json.dumps(CONFIG))
        for cell in filter(is_test, source.cells):
            name = cell.metadata.nbgrader.grade_id
            archive.writestr(f"tests/{name}.py", TEST.format(name=name, source=cell.source))
    for path in sorted((course / "submitted").glob(f"*/{ASSIGNMENT}/*.ipynb")):
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # the same
        notebook.cells = [cell for cell in notebook.cells if not is_test(cell)]
        nbformat.write(notebook, course / f"{path.parts[-3]}.ipynb")  # type: ignore[no-untyped-call]  # the same


def is_test(cell: Any) -> bool:
    """Does nbgrader grade this cell by running it?"""
    marks = cell.metadata.get("nbgrader", {})
    return bool(cell.cell_type == "code" and marks.get("grade") and not marks.get("solution"))


def passed(course: Path) -> dict[str, list[str]]:
    """student → the questions that got everything, as the child has written them."""
    found: dict[str, list[str]] = json.loads((course / "otter.json").read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Grades a prepared course."""
    course = Path(sys.argv[1])
    try:
        api = importlib.import_module("otter.api")
    except ImportError as missing:
        raise NotInstalled("otter-grader") from missing
    found = {}
    for path in sorted(course.glob("*.ipynb")):
        graded = api.grade_submission(str(path), str(course / "autograder.zip"), quiet=True)
        results = graded.to_dict()
        found[path.stem] = sorted(name for name, each in results.items() if each["score"] == PASSED)
    (course / "otter.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
