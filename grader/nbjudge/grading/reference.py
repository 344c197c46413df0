"""The instructor's own answers, graded first: a test that fails on them would cost every student points."""

from __future__ import annotations

from dataclasses import replace

from nbjudge.course import intake
from nbjudge.course.layout import Course
from nbjudge.errors import CourseError
from nbjudge.model import Assignment, Kind, Outcome, Result, Submission

REFERENCE = "the reference answer"  # in place of a student's name; it never gets into the gradebook
ADVICE = (
    "Mend the test or the answer in {folder}, run `nbgrader generate_assignment {name} --force`, and grade again; "
    "--without-reference grades all the same"
)
AGAIN = "If a process of the grader was killed, the same command goes on from here. If it says this again:"


def submission(course: Course, assignment: Assignment) -> Submission:
    """The source notebooks, as if a student had handed them in.

    Raises `CourseError` where a notebook of the assignment has no readable source.
    """
    folder = course.folder(course.source, ".", assignment.name)
    lost = [name for book in assignment.notebooks if not (folder / (name := f"{book.name}.ipynb")).is_file()]
    if lost:
        raise CourseError(
            f"the source {folder / lost[0]} is missing, so nobody knows whether the tests are right. Put it back; "
            f"--without-reference grades all the same"
        )
    read = intake.read(folder.resolve(), REFERENCE, assignment.name, assignment.limits)
    if read.refusal:
        raise CourseError(f"the source in {folder} can't be graded itself: {read.refusal}")
    return replace(read, timestamp=None)


def demand(result: Result, assignment: Assignment, course: Course) -> None:
    """Raises `CourseError` for the questions that the reference answer doesn't pass. Nothing was recorded then."""
    if result.refusal:
        raise CourseError(f"the source can't be graded itself: {result.refusal}")
    tests = {cell.grade_id for book in assignment.notebooks for cell in book.cells if cell.grade and not cell.solution}
    wrong = [outcome for outcome in result.outcomes if outcome.grade_id in tests and outcome.kind is not Kind.PASSED]
    if wrong:
        folder = course.folder(course.source, ".", result.assignment)
        questions = "\n".join(f"  {_said(outcome)}" for outcome in wrong)
        advice = ADVICE.format(folder=folder, name=result.assignment)
        if all(outcome.kind is Kind.GRADER_FAILURE for outcome in wrong):
            verdict, advice = "got no verdict", f"{AGAIN} {advice}"
        else:
            verdict = "fail"
        raise CourseError(
            f"{len(wrong)} of the tests {verdict} on the reference answer; nothing was recorded.\n{questions}\n{advice}"
        )


def _said(outcome: Outcome) -> str:
    reached = "no verdict" if outcome.points is None else f"{outcome.points:g} of {outcome.max_points:g}"
    first = next(iter(outcome.message.splitlines()), "") or "no message"
    return f"{outcome.grade_id}: {outcome.kind}, {reached}: {first}"
