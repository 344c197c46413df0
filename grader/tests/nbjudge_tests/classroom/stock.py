"""Assignments of other courses through both graders: stock nbgrader's, and ours, question by question.

What is handed in: the instructor's own answers, the release as it is, and wrong answers made of the right ones.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.preprocessors import Execute
from nbgrader.utils import determine_grade

from nbjudge.course import intake
from nbjudge.course.gradebook import Record
from nbjudge.course.layout import Course
from nbjudge.course.restore import restored
from nbjudge.grading import questions
from nbjudge.grading.engine import grade
from nbjudge.grading.trial import RunNotebook
from nbjudge.model import Assignment, Outcome, Submission
from nbjudge_tests.classroom.commands import nbgrader

Row = tuple[str, str]  # which notebook was handed in, which question
MARKED = re.compile(r"^[ \t]*### BEGIN SOLUTION.*?### END SOLUTION[^\n]*$", re.DOTALL | re.MULTILINE)
RESET = """%reset -f
import os
for _name in set(os.listdir()) - {{*{kept!r}}}:
    os.path.isfile(_name) and os.remove(_name)
%reset -f"""  # the next student's folder holds nothing of this one's
WRONG = {  # of the text of an answer
    "returns nothing": lambda text: re.sub(r"\breturn\b", "", text),
    "one off": lambda text: re.sub(r"\b(\d+)\b", lambda found: str(int(found[1]) + 1), text),
    "another order": lambda text: text.replace("+", "-").replace("<", ">"),
    "raises": lambda text: re.sub(r"^(\s*)return .*$", r"\1raise ValueError('no')", text, flags=re.MULTILINE),
}


@dataclass(frozen=True)
class Rows:
    """Points of each question, as stock nbgrader gives them and as we do; None: not graded."""

    stock: Mapping[Row, float | None]
    ours: Mapping[Row, Outcome]

    def differing(self) -> dict[Row, tuple[float | None, Outcome]]:
        """Where the two don't agree."""
        pairs = {row: (points, self.ours[row]) for row, points in self.stock.items()}
        return {row: (points, mine) for row, (points, mine) in pairs.items() if points != mine.points}


def course(root: Path, name: str, sources: Mapping[str, Path]) -> Course:
    """A course with one assignment: its notebooks and other files, by the names that they get in it."""
    folder = root / "source" / name
    folder.mkdir(parents=True)
    for target, path in sources.items():
        shutil.copy(path, (root if target == "autotests.yml" else folder) / target)
    nbgrader(root, "generate_assignment", name)  # a process of its own: it starts kernels and leaves sockets open
    return Course(root, f"sqlite:///{root / 'gradebook.db'}", "stock")


def both(made: Course, name: str, run: RunNotebook, titles: Collection[str] = (), alone: Collection[str] = ()) -> Rows:
    """All that is handed in for one assignment through both graders; of `alone` notebooks through ours only.

    `titles`: no more than these of what a class might hand in.
    """
    with Record(made) as record:
        assignment = record.assignment(name, 5)
    handed_in = {title: one for title, one in submissions(made, assignment) if not titles or title in titles}
    assignment = measured(handed_in["solution"], assignment, run)
    stock: dict[Row, float | None] = {}
    ours: dict[Row, Outcome] = {}
    documents: list[tuple[str, Any]] = []
    for title, submission in handed_in.items():
        graded = grade(submission, assignment, run, give_up=False)
        for notebook in graded.notebooks:
            ours |= {(f"{notebook.name}: {title}", one.grade_id): one for one in notebook.outcomes}
        documents += [
            (f"{book.name}: {title}", restored(submission.notebooks[book.name], book).document)
            for book in assignment.notebooks
            if book.name not in alone
        ]
    for title, cells in executed(documents, made.folder(made.source, ".", name)):
        for cell in cells:
            marks = cell.metadata.get("nbgrader", {})
            if marks.get("grade"):
                stock[title, marks["grade_id"]] = determine_grade(cell)[0]
    return Rows({row: stock[row] for row in stock if row in ours}, ours)


def measured(solution: Submission, assignment: Assignment, run: RunNotebook) -> Assignment:
    """The assignment with what the instructor's own answers do, as a run of the class measures the others by it."""
    result = grade(replace(solution, student=questions.REFERENCE), assignment, run, give_up=False)
    return replace(assignment, effects=questions.effects(result), places=result.places)


def executed(documents: list[tuple[str, Any]], folder: Path) -> Iterator[tuple[str, list[Any]]]:
    """Their code cells after stock nbgrader's Execute: all in one kernel, emptied in between, since a start takes
    seconds."""
    book = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "", "language": "python"}}
    )
    kept = sorted(path.name for path in folder.iterdir())
    for _, document in documents:
        book.cells.append(nbformat.v4.new_code_cell(RESET.format(kept=kept)))
        cells = [nbformat.from_dict(copy.deepcopy(cell)) for cell in document["cells"]]
        book.cells += [cell for cell in cells if cell.cell_type == "code"]
    patient = Execute(timeout=300, iopub_timeout=60)  # a recursion without an end is long to show
    patient.preprocess(book, {"metadata": {"path": str(folder)}})
    rest = iter(book.cells)
    next(rest)
    for title, document in documents:
        count = sum(cell["cell_type"] == "code" for cell in document["cells"])
        yield title, [next(rest) for _ in range(count)]
        next(rest, None)


def submissions(made: Course, assignment: Assignment) -> Iterator[tuple[str, Submission]]:
    """What a class hands in, read as it is."""
    source, release = (made.folder(step, ".", assignment.name) for step in (made.source, "release"))
    right = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(source.glob("*.ipynb"))}
    blank = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(release.glob("*.ipynb"))}
    spoiled = {title: {name: spoilt(book, spoil) for name, book in right.items()} for title, spoil in WRONG.items()}
    for title, books in {"solution": right, "release": blank, **spoiled}.items():
        if books != right or title == "solution":
            folder = made.folder(made.submitted, title.replace(" ", "-"), assignment.name)
            shutil.copytree(source, folder)
            for name, book in books.items():
                (folder / name).write_text(json.dumps(book), encoding="utf-8")
            read = intake.read(folder, title, assignment.name, assignment.limits)
            assert read.refusal is None, read.refusal
            yield title, read


def spoilt(book: Any, spoil: Any) -> Any:
    """The notebook with wrong answers."""
    made = copy.deepcopy(book)
    for cell in made["cells"]:
        if cell["cell_type"] == "code" and cell["metadata"].get("nbgrader", {}).get("solution"):
            text = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
            cell["source"] = spoil(text)
    return made
