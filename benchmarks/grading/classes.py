"""Classes to grade: the project's own assignment, its proven answers handed in by as many students as are wanted."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook

from nbjudge_tests.classroom.roster import adding, filled
from tests.course.answer_files import ASSIGNMENT, ROOT
from tools.evidence.demo_class import class_answers

DIGITS = 6  # nbgrader keeps 10.000000000000002 of a fraction of 15, we 10
STOCK = "c = get_config()\nc.CourseDirectory.course_id = 'autograd101'\n"
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
BURN = "import time\nstarted = time.process_time()\nwhile time.process_time() - started < {seconds}:\n    pass"


@dataclass(frozen=True)
class Cost:
    """What one command took, its start-up included."""

    wall_s: float
    cpu_s: float
    students: int
    judging_cpu_s: float = 0.0  # of each submission's two processes, where it is known


def template(at: Path) -> Path:
    """The course, generated; nobody has handed in."""
    shutil.copytree(ROOT / "source" / ASSIGNMENT, at / "source" / ASSIGNMENT)
    shutil.copy(ROOT / "nbgrader_config.py", at)
    run(at, "-m", "nbgrader", "generate_assignment", ASSIGNMENT, "--log-level=WARN")
    return at


def course(made: Path, at: Path, students: int, *, stock: bool = False, burn_s: float = 0.0) -> Path:
    """A copy with a class: right answers in two styles, wrong ones, and answers left open, in turn."""
    shutil.copytree(made, at)
    released = nbformat.read(at / "release" / "en" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", as_version=4)  # type: ignore[no-untyped-call]  # nbformat has no types
    answers = class_answers()
    kinds = [answers.right, answers.other, {**answers.right, **answers.wrong[0]}, answers.wrong[1], {}]
    for number in range(students):
        notebook = filled(released, kinds[number % len(kinds)], answers.written)
        notebook = adding(notebook, next(iter(answers.right)), f"# s{number}\n" + BURN.format(seconds=burn_s))
        folder = at / "submitted" / f"s{number:05}" / ASSIGNMENT
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{ASSIGNMENT}.ipynb")  # type: ignore[no-untyped-call]  # the same
    if stock:
        (at / "nbgrader_config.py").write_text(STOCK)
    return at


def run(root: Path, *arguments: str) -> str:
    """One Python command in a course; ends the measurement where it fails."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=root, env=ENVIRONMENT, capture_output=True, text=True)  # noqa: S603 -- ours
    if done.returncode:
        sys.exit(f"{arguments} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def cost(root: Path, students: int, command: Sequence[str]) -> Cost:
    """Wall and CPU seconds of a command and all that it starts."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run(root, *command)
    wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, students)


def judging_cpu_s(root: Path) -> float:
    """The median CPU seconds of a submission's two processes, as the kept Results have them."""
    results = (json.loads(path.read_text(encoding="utf-8")) for path in (root / ".grader" / "results").iterdir())
    return float(statistics.median(result["cpu_s"] for result in results))


def forget(root: Path) -> None:
    """Let the gradebook forget which results it holds, so that they are recorded again, though not judged."""
    with closing(sqlite3.connect(root / "gradebook.db")) as book:
        book.execute("DELETE FROM grader_applied")
        book.commit()


def passed(root: Path) -> Mapping[str, list[str]]:
    """student → the questions judged by machine that got everything."""
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "autograd101") as book:
        found = {
            submission.student.id: sorted(
                grade.name
                for notebook in submission.notebooks
                for grade in notebook.grades
                if grade.auto_score is not None and round(grade.auto_score - grade.max_score, DIGITS) == 0
            )
            for submission in book.assignment_submissions(ASSIGNMENT)
        }
    book.engine.dispose()
    return found


def scores(root: Path) -> Mapping[str, Any]:
    """student → score of each question, and what waits for a person."""
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "autograd101") as book:
        found = {
            submission.student.id: sorted(
                (
                    grade.name,
                    None if grade.auto_score is None else round(grade.auto_score, DIGITS),
                    grade.needs_manual_grade,
                )
                for notebook in submission.notebooks
                for grade in notebook.grades
            )
            for submission in book.assignment_submissions(ASSIGNMENT)
        }
    book.engine.dispose()
    return found
