"""What a gradebook holds, for comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook

from nbjudge_tests.classroom import small

Rows = dict[tuple[str, str], tuple[Any, ...]]


def rows(root: Path, db_url: str = "") -> Rows:
    """(student, cell) → all that nbgrader keeps of a grade or a comment."""
    found: Rows = {}
    with Gradebook(db_url or f"sqlite:///{root / 'gradebook.db'}", "autograd101") as book:
        for submission in book.assignment_submissions(small.NAME):
            student = submission.student.id
            found[student, ""] = (str(submission.timestamp), submission.score, submission.needs_manual_grade)
            for notebook in submission.notebooks:
                for grade in notebook.grades:
                    found[student, grade.name] = (
                        grade.auto_score,
                        grade.manual_score,
                        grade.needs_manual_grade,
                        grade.max_score,
                        notebook.late_submission_penalty,
                    )
                for comment in notebook.comments:
                    found[student, f"comment on {comment.name}"] = (comment.auto_comment, comment.manual_comment)
    book.engine.dispose()
    return found
