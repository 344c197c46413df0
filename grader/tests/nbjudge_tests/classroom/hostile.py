"""A course of five questions, and a class most of which wants points without answers, secrets, or damage.

`attacks/*.ipy` is what a student writes into the answer's cell; `attacks/*.py` writes a whole folder.

python -m nbjudge_tests.classroom.hostile FOLDER    grades the class in FOLDER and writes FOLDER/results.jsonl
"""

from __future__ import annotations

import copy
import hashlib
import json
import runpy
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import nbjudge.grading.trial
from nbjudge.course.layout import Course
from nbjudge.grading.batch import Entry, RunOptions, autograde
from nbjudge.grading.farm import grade_all
from nbjudge.grading.trial import judge_for
from nbjudge.model import Limits, Result
from nbjudge_tests.classroom.small import KERNEL, cell, configure

NAME = "ps1"
LIMITS = Limits(cell_s=1.5, notebook_s=20, output_bytes=200_000, memory_bytes=2 << 30)
ROOT = Path(__file__).parents[4]
ATTACKS = {path.stem: path for path in sorted((ROOT / "grader" / "tests" / "attacks").glob("*.*py"))}
SECRETS = ("secret_of_the_tests", "HIDDEN TESTS", "7421")
HONEST = ("aa_first", "honest_a", "mm_middle", "zz_last")

HELPER = """from seegrad.check import score
def near(found, wanted):
    return bool(torch.isclose(torch.tensor(found), torch.tensor(wanted), atol=CLOSE))"""
ANSWER = """number = 0
### BEGIN SOLUTION
number = 7421
### END SOLUTION

def square(x):
    ### BEGIN SOLUTION
    return x * x
    ### END SOLUTION

def grade_of(x):
    ### BEGIN SOLUTION
    return 3 * float(x.sum())
    ### END SOLUTION

def apply(f, x):
    ### BEGIN SOLUTION
    return f(x)
    ### END SOLUTION

### BEGIN SOLUTION
weight = torch.ones(2, requires_grad=True)
### END SOLUTION"""
RIGHT = """import sys
print("working", file=sys.stderr)
number = 7421
def square(x):
    print("squaring")
    return x.pow(2)
def grade_of(x): return sum(3 * item.item() for item in x)
def apply(f, x): return f(x)
weight = torch.zeros(2).requires_grad_()
7421"""
TESTS = {
    "number": (
        5,
        """assert type(number) is int
### BEGIN HIDDEN TESTS
secret_of_the_tests = 7421
assert number == secret_of_the_tests
### END HIDDEN TESTS""",
    ),
    "square": (
        10,
        """import torch
x = torch.rand(2) + 1
x.requires_grad_()
### BEGIN HIDDEN TESTS
secret_of_the_tests = (x * x).detach()
slope = 2 * x.detach().clone()
y = square(x)
assert torch.equal(y, secret_of_the_tests)
y.sum().backward()
assert torch.allclose(x.grad, slope)
### END HIDDEN TESTS""",
    ),
    "partial": (
        10,
        """x = torch.rand(3) + 1
### BEGIN HIDDEN TESTS
secret_of_the_tests = 3 * float(x.sum())
reached = 1.0 if near(float(grade_of(x)), secret_of_the_tests) else 0.0
### END HIDDEN TESTS
score(reached)""",
    ),
    "apply": (
        5,
        """assert apply(str, 3) == "3"
### BEGIN HIDDEN TESTS
secret_of_the_tests = 40
assert apply(lambda v: v + secret_of_the_tests, 2) == 42
### END HIDDEN TESTS""",
    ),
    "weight": (3, "assert weight.is_leaf and weight.requires_grad"),
}
FULL = {name: float(points) for name, (points, _) in TESTS.items()}
# Points that rest on the student's word alone: at most a tenth.
WORD_ONLY = {"weight"}


def make(root: Path) -> Path:
    """The course's folder with its source; nothing generated yet."""
    folder = root / "source" / NAME
    folder.mkdir(parents=True)
    configure(root, 'prove = "off"')  # one question is meant to be open: it rests on a word
    cells = [new_markdown_cell("# One", id="title"), new_code_cell("import torch\nCLOSE = 1e-3", id="imports")]
    cells += [cell(HELPER, "helper", locked=True), cell(ANSWER, "answer", solution=True)]
    cells += [cell(source, name, points=points, grade=True, locked=True) for name, (points, source) in TESTS.items()]
    nbformat.write(new_notebook(cells=cells, metadata=KERNEL), folder / f"{NAME}.ipynb")
    return root


def hand_in(root: Path) -> tuple[str, ...]:
    """What the class has sent; the names of the attackers."""
    released = json.loads((root / "release" / "en" / NAME / f"{NAME}.ipynb").read_text())
    for student in HONEST:
        _folder(root, student).joinpath(f"{NAME}.ipynb").write_text(json.dumps(_answered(released, RIGHT)))
    for name, path in ATTACKS.items():
        folder = _folder(root, name)
        if path.suffix == ".ipy":
            book = _answered(released, path.read_text(encoding="utf-8"))
            (folder / f"{NAME}.ipynb").write_text(json.dumps(book))
        else:
            runpy.run_path(str(path))["hand_in"](folder, NAME, copy.deepcopy(released))
    return tuple(ATTACKS)


def _folder(root: Path, student: str) -> Path:
    folder = root / "submitted" / student / NAME
    folder.mkdir(parents=True)
    return folder


def _answered(released: Mapping[str, Any], source: str) -> dict[str, Any]:
    made = copy.deepcopy(dict(released))
    for content in made["cells"]:
        if content["metadata"].get("nbgrader", {}).get("grade_id") == "answer":
            content["source"] = source
    return made


def grade(root: Path) -> tuple[Entry, ...]:
    """The whole class, graded with little patience."""
    course = Course(root, f"sqlite:///{root / 'gradebook.db'}", "autograd101")
    farm = partial(grade_all, open_judge=partial(judge_for, limits=LIMITS, trust_students=False), workers=2)
    patience, nbjudge.grading.trial.GRACE_S = nbjudge.grading.trial.GRACE_S, 0.5
    try:
        entries = autograde(course, NAME, RunOptions(limits=LIMITS), farm)
    finally:
        nbjudge.grading.trial.GRACE_S = patience
    return tuple(replace(entry, result=_with_texts(course, entry.result)) for entry in entries)


def _with_texts(course: Course, result: Result) -> Result:
    """As it is published: what a person reads."""
    folder = course.folder(course.autograded, result.student, NAME)
    paths = {graded.name: folder / f"{graded.name}.ipynb" for graded in result.notebooks if not graded.missing}
    read = {name: path.read_text(encoding="utf-8") for name, path in paths.items() if path.is_file()}
    return replace(result, notebooks=tuple(replace(one, notebook=read.get(one.name, "")) for one in result.notebooks))


def digest(folder: Path) -> dict[str, str]:
    """Every file below a folder and a hash of its content; of a link where it leads."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = str(path.readlink())
        elif path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def main(root: Path) -> None:
    results = [entry.result.to_json() for entry in grade(root)]
    (root / "results.jsonl").write_text("\n".join(results), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
