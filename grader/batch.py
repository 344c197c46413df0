"""A whole class, from `submitted/` to the gradebook: read, judge what is new, keep, record, report.

A Result is kept under its key before it is recorded, and the gradebook remembers the key of what it holds. So a run
that was killed at any moment goes on where it stopped, and an unchanged submission is neither run nor recorded again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from traitlets.config import Config

from grader import engine, intake
from grader.course import Course, checked_name
from grader.errors import CourseError, GradebookError
from grader.farm import OpenJudge, grade_all
from grader.folder import publish
from grader.model import Assignment, Limits, Result, Submission
from grader.record import Record


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may ask of one run."""

    students: str = "*"  # a pattern of student ids
    excluded: frozenset[str] = frozenset()
    force: bool = False  # run and record again what is unchanged
    create_students: bool = True
    new_seed: bool = False
    workers: int | None = None  # default: one per core
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Entry:
    """How one student's submission went. `problem` is a sentence for the instructor, or None: all graded."""

    student: str
    result: Result
    problem: str | None = None
    unchanged: bool = False  # already in the gradebook


Progress = Callable[[Entry, int, int], None]  # what was done, how many are done, of how many


def autograde(
    course: Course,
    name: str,
    options: Options,
    open_judge: OpenJudge,
    progress: Progress = lambda _entry, _done, _total: None,
    config: Config | None = None,
) -> tuple[Entry, ...]:
    """Grades everything handed in for assignment `name`; one Entry per student, sorted.

    Raises `CourseError`, `GradebookError` or `SandboxError` where it could not start; nothing was changed then.
    """
    folders = [
        (student, folder)
        for student, folder in course.submissions(checked_name(name), options.students)
        if student not in options.excluded
    ]
    with Record(course, config) as record:
        known = record.assignment(name, 0)  # complain of a missing assignment before missing submissions
        if not folders:
            pattern = course.folder(course.submitted, options.students, name)
            raise CourseError(f"nobody handed anything in: no folder matches {pattern}")
        seed = course.seed(name, new=options.new_seed)
        assignment = replace(known, seed=seed, limits=options.limits)
        run = _Run(course, assignment, record, options)
        entries = []
        for entry in run.entries(folders, open_judge):
            entries.append(entry)
            progress(entry, len(entries), len(folders))
    return tuple(sorted(entries, key=lambda entry: entry.student))


@dataclass(frozen=True, slots=True)
class _Run:
    course: Course
    assignment: Assignment
    record: Record
    options: Options

    def entries(self, folders: list[tuple[str, Path]], open_judge: OpenJudge) -> Iterator[Entry]:
        """First what needs no judge, then the rest as the farm yields it."""
        applied = self.record.applied(self.assignment.name)
        waiting: list[tuple[str, Path]] = []
        for student, folder in folders:
            submission = self._read(student, folder)
            kept = None if self.options.force else self._kept(engine.key(submission, self.assignment))
            if not self._may_record(student):
                yield self._unknown(submission)
            elif kept is not None and applied.get(student) == kept.key and self._published(student):
                yield Entry(student, kept, problem(kept), unchanged=True)
            elif kept is not None:
                yield self._recorded(kept, submission)
            else:
                waiting.append((student, folder))
        submissions = (self._read(student, folder) for student, folder in waiting)
        for submission, result in grade_all(submissions, self.assignment, open_judge, self.options.workers):
            yield self._recorded(result, submission)

    def _read(self, student: str, folder: Path) -> Submission:
        return intake.read(folder, student, self.assignment.name, self.assignment.limits)

    def _may_record(self, student: str) -> bool:
        return self.options.create_students or self.record.knows_student(student)

    def _unknown(self, submission: Submission) -> Entry:
        reason = "the gradebook has no such student, and this run was asked to create none"
        blank = Result("", submission.student, submission.assignment, submission.timestamp, refusal=reason)
        return Entry(submission.student, blank, reason)

    def _published(self, student: str) -> bool:
        return self.course.folder(self.course.autograded, student, self.assignment.name).is_dir()

    def _recorded(self, result: Result, submission: Submission) -> Entry:
        """Keeps the result, then its folder, then the gradebook's row: each step can be done again."""
        if not result.failed_by_us:
            self._keep(result)
        try:
            publish(result, submission, self.assignment, self.course)
            self.record.write(result)
        except (GradebookError, OSError) as error:
            return Entry(result.student, result, f"not recorded: {error}")
        return Entry(result.student, result, problem(result))

    def _place(self, key: str) -> Path:
        folder = self.course.state / "results"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / f"{key}.json"

    def _keep(self, result: Result) -> None:
        place = self._place(result.key)
        draft = place.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(result.to_json(), encoding="utf-8")
        draft.replace(place)

    def _kept(self, key: str) -> Result | None:
        with suppress(OSError, ValueError, KeyError, TypeError):  # damaged is as good as absent: it is run again
            return Result.from_json(self._place(key).read_text(encoding="utf-8"))
        return None


def problem(result: Result) -> str | None:
    """Why the submission isn't graded as a whole, or None."""
    if result.refusal is not None:
        return f"refused: {result.refusal}"
    if result.failed_by_us:
        failed = [outcome for outcome in result.outcomes if outcome.points is None and outcome.message]
        return f"grader failure: {failed[0].message if failed else 'no verdict'}"
    return None
