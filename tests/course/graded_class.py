"""A class whose row k hands in the k-th answer to every exercise: three submissions, in `make test-all` twenty."""

from __future__ import annotations

import copy
import functools
import html
import itertools
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

from nbjudge_tests.classroom.commands import nbgrader
from nbjudge_tests.classroom.small import configure
from tests.course.answer_files import ROOT, Answer, chosen, exercises

TIMEOUT_S = 1200  # of one command on a whole class, on a busy machine


@dataclass(frozen=True)
class Graded:
    """What came of a class: points by student and test cell, the text of each student's feedback page.

    `complaint` says why nothing came, where nbgrader or the grader refused.
    """

    course: Path
    points: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    pages: Mapping[str, str] = field(default_factory=dict)
    rows: Sequence[tuple[Answer | None, ...]] = ()
    complaint: str = ""

    def of(self, answer: Answer) -> tuple[float | None, str]:
        """The points and the feedback of one answer: the part of the page that its test cell has."""
        assert not self.complaint, self.complaint
        student = f"row{next(number for number, row in enumerate(self.rows) if answer in row):02}"
        return self.points[student][f"{answer.cell}_test"], section(self.pages[student], answer.cell)


def class_of(make_folder: Callable[[str], Path]) -> Callable[[str], Graded]:
    """The graded class of an assignment, by name; graded once, whatever comes of it."""

    @functools.cache
    def graded(name: str) -> Graded:
        course = make_folder(name)
        try:
            return _graded(course, name)
        except AssertionError as refusal:  # what a command said; each test that asks for the class says it again
            return Graded(course, complaint=str(refusal))

    return graded


def _graded(course: Path, name: str) -> Graded:
    """The whole class, graded by `nbgrader autograde`, with its feedback."""
    configure(course)
    shutil.copytree(ROOT / "source" / name, course / "source" / name)
    nbgrader(course, "generate_assignment", name, timeout_s=TIMEOUT_S)
    released = nbformat.read(course / "release" / "en" / name / f"{name}.ipynb", as_version=4)
    hand_in(course, "stub", name, released)
    hand_in(course, "source", name, nbformat.read(ROOT / "source" / name / f"{name}.ipynb", as_version=4))
    found = chosen(name)
    columns = [[answer for answer in found if answer.cell == exercise] for exercise in exercises(name)]
    rows = list(itertools.zip_longest(*columns))
    for number, row in enumerate(rows):
        hand_in(course, f"row{number:02}", name, answered(released, [answer for answer in row if answer]))
    nbgrader(course, "autograde", name, timeout_s=TIMEOUT_S)
    nbgrader(course, "generate_feedback", name, timeout_s=TIMEOUT_S)
    return Graded(course, dict(recorded(course, name)), dict(pages(course, name)), rows)


def answered(released: Any, row: list[Answer]) -> Any:
    """A notebook with these answers in it."""
    made = copy.deepcopy(released)
    for cell in made.cells:
        cell.source = next((answer.source for answer in row if answer.cell == cell.id), cell.source)
    return made


def hand_in(course: Path, student: str, name: str, made: Any) -> None:
    folder = course / "submitted" / student / name
    folder.mkdir(parents=True)
    nbformat.write(made, folder / f"{name}.ipynb")


def recorded(course: Path, name: str) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Each student's points by cell, as nbgrader's gradebook has them."""
    from nbgrader.api import Gradebook

    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        for submission in book.assignment_submissions(name):
            grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
            yield submission.student.id, {grade.name: grade.auto_score for grade in grades}


def pages(course: Path, name: str) -> Iterator[tuple[str, str]]:
    for path in course.glob(f"feedback/*/{name}/{name}.html"):
        yield path.parts[-3], path.read_text(encoding="utf-8")


def section(page: str, cell: str) -> str:
    """The part of a feedback page that belongs to the test cell of one exercise, as text."""
    cards = (part.partition("</div>")[0] for part in page.split('<div class="card ')[1:])
    return text_of(next(card for card in cards if f'id="q-{cell}_test"' in card))


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page))
