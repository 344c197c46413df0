"""A whole class, from `submitted/` to the gradebook: read, judge what is new, keep, record, report.

A Result is kept under its key before it is recorded, and the gradebook remembers the key of what it holds. So a run
that was killed at any moment goes on where it stopped, and an unchanged submission is neither run nor recorded again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import TypeVar

from traitlets.config import Config

from nbjudge.course import intake, privacy
from nbjudge.course.gradebook import Record, alone, held
from nbjudge.course.kept import Kept, is_new, publish, sweep_swaps
from nbjudge.course.layout import MOST_LETTERS, Course, checked_name, unusable
from nbjudge.course.office.astray import astray
from nbjudge.course.office.standings import Standing
from nbjudge.course.office.tables import Attempt
from nbjudge.errors import CourseError, DiskFull, GradebookError, ReferenceFailed, StorageError
from nbjudge.grading import engine, questions
from nbjudge.grading.farm import Farm
from nbjudge.grading.prove import KINDS, Proof, prove
from nbjudge.model import Assignment, Limits, Result, Submission

T = TypeVar("T")
UNUSABLE = "a folder of this name isn't looked at: {why}. Rename it to the student's id"
RESERVED = "it is what the course's own answers are called by"
OURS = "not recorded: the grader failed on this submission: {kind}: {error}"
NOBODY = "nobody handed anything in: no folder matches {folder}"
ASTRAY = "not graded: {why}"
ALL_THE_SAME = "--without-reference grades all the same"
NO_STUDENT = "the gradebook has no such student, and this run was asked to create none"
SPENT = "one attempt too many: max_attempts allows {most}, and the grades of the last one graded stay"
NOT_PROVED = (
    "a question is open to wrong answers; nothing was recorded.\n  {sentences}\n"
    '`c.SandboxedAutograde.prove = "warn"` grades all the same'
)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a person may ask of one run."""

    students: tuple[str, ...] = ("*",)  # patterns of student ids
    excluded: frozenset[str] = frozenset()
    force: bool = False  # run and record again what is unchanged
    create_students: bool = True
    new_seed: bool = False
    reference: str = "passes"  # or nothing is recorded; "shows" what it can, and may fail; "none" is graded
    max_attempts: int = 0  # of one student: texts beyond are not graded; 0: as many as they like
    before_change: Callable[[], object] = lambda: None  # called once, before the gradebook's first change
    prove: str = "off"  # where an adversary passes: "refuse" to record anything, "warn", or don't try any
    limits: Limits = field(default_factory=Limits)
    say: Callable[[str], object] = lambda _stage: None  # what is tried now, before anybody is graded


@dataclass(frozen=True, slots=True)
class Entry:
    """How one student's submission went. `problem` is a sentence for the instructor, or None: all graded.

    `before` and `standing` are what the gradebook said when the run began, and says after it. The notebooks' own texts
    aren't here but on the disk: a class of them would fill the memory.
    """

    student: str
    result: Result
    problem: str | None = None
    unchanged: bool = False  # already in the gradebook
    before: Standing | None = None
    standing: Standing | None = None


Progress = Callable[[Entry, int, int], None]  # what was done, how many are done, of how many
Warn = Callable[[str], None]
Tell = Callable[[list[str]], None]


def autograde(
    course: Course,
    name: str,
    options: RunOptions,
    farm: Farm,
    progress: Progress = lambda _entry, _done, _total: None,
    config: Config | None = None,
    warn: Warn = lambda _sentence: None,
) -> tuple[Entry, ...]:
    """Grades everything handed in for assignment `name`; one Entry per student, sorted.

    `warn` is told of questions that an adversary passes, unless it has been told the same before.

    `farm` yields each submission with its Result, in any order. Raises `CourseError`, `GradebookError`, `BusyError`
    or `SandboxError` where it could not start, and nothing was changed then; `StorageError` where the disk gives out:
    what is recorded until then is safe.
    """
    checked_name(name)
    with alone(course, config) as record:
        privacy.close(course)
        known = record.assignment(name, 0)  # complain of a missing assignment before missing submissions
        lost = dict(astray(course, name, record.notebooks(), options.students))
        folders = _folders(course, name, options, lost)
        seed = course.seed(name, new=options.new_seed)
        assignment = replace(known, seed=seed, limits=options.limits)
        kept = Kept(course.state)
        run = _Run(course, assignment, record, options, kept, progress, len(folders) + len(lost))
        run.sweep()
        if options.reference != "none":
            tell = partial(_tell, course, name, warn, again=False)
            try:
                run.assignment = _tried(course, assignment, options, partial(_judged, farm=farm, kept=kept), tell)
            except ReferenceFailed as error:
                raise ReferenceFailed(f"{error}; {ALL_THE_SAME}") from error
        run.look()
        with _imports_left_alone():
            run.grade(folders, farm)
        run.pass_over(lost)
    return tuple(sorted(run.entries, key=lambda entry: entry.student))


@contextmanager
def _imports_left_alone() -> Iterator[None]:
    """Meanwhile the collector doesn't look through all that was there before: a fifth of what is done here."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def proof(course: Course, name: str, options: RunOptions, farm: Farm, config: Config | None = None) -> Proof:
    """Which adversaries pass which questions of assignment `name`.

    Raises `CourseError` where the reference answer doesn't pass, or there is no such assignment.
    """
    with held(course, config), _opened(course, name, options, config) as assignment:
        judged = partial(_judged, farm=farm, kept=Kept(course.state))
        assignment, reference = _measured(course, assignment, judged)
        return prove(reference, assignment, partial(judged, assignment=assignment))


def rehearse(course: Course, name: str, options: RunOptions, farm: Farm, config: Config | None, warn: Warn) -> None:
    """What a run tries before the class is graded: the instructor's own answers, and adversaries where these are asked.

    Call it while you hold the course alone. Raises `CourseError` where the run would.
    """
    with _opened(course, name, options, config) as assignment:
        tell = partial(_tell, course, name, warn, again=True)
        _tried(course, assignment, options, partial(_judged, farm=farm, kept=Kept(course.state)), tell)


@contextmanager
def _opened(course: Course, name: str, options: RunOptions, config: Config | None) -> Iterator[Assignment]:
    with Record(course, config) as record:
        known = record.assignment(checked_name(name), 0)
        yield replace(known, seed=course.seed(name, new=options.new_seed), limits=options.limits)


def _measured(course: Course, assignment: Assignment, judged: Farm) -> tuple[Assignment, Submission]:
    """The assignment with what its reference answer does, which is what others are measured by; that answer."""
    asked = questions.reference(course, assignment)
    results = sorted((result for _, result in judged(questions.drawn(asked), assignment)), key=lambda one: one.student)
    for result in results:
        questions.demand_passed(result, assignment, course)
    effects, places = questions.united(results)
    return replace(assignment, effects=effects, places=places), asked


def _shown(course: Course, assignment: Assignment, judged: Farm) -> Assignment:
    """The assignment with what its reference answer shows where it gets to, whether it passes or not."""
    try:
        asked = questions.reference(course, assignment)
    except CourseError:  # no source, or none that can be read: nobody knows more then
        return assignment
    ((_, result),) = judged([asked], assignment)
    return assignment if result.refusal else replace(assignment, places=result.places)


def _tried(course: Course, assignment: Assignment, options: RunOptions, judged: Farm, tell: Tell) -> Assignment:
    """The assignment as `_measured`; where the course wants them, adversaries have been handed in too."""
    if options.reference == "shows":
        return _shown(course, assignment, judged)
    options.say(f"{assignment.name}: grading the author's own answers")
    measured, reference = _measured(course, assignment, judged)
    if options.prove != "off":
        options.say(f"{assignment.name}: handing in {len(KINDS)} answers that deserve no points")
        _demand_proved(prove(reference, measured, lambda asked: judged(asked, measured)), options, tell)
    return measured


def _judged(
    submissions: Iterable[Submission], assignment: Assignment, *, farm: Farm, kept: Kept
) -> Iterator[tuple[Submission, Result]]:
    """The course's own submissions: from what is kept, the rest through the farm."""
    left = []
    for submission in submissions:
        known = kept.get(engine.key(submission, assignment))
        if known is None:
            left.append(submission)
        else:
            yield submission, known
    for submission, result in farm(left, assignment) if left else ():
        if not result.failed_by_us:  # the course's own answers are tried again as a whole
            kept.put(result)
        yield submission, result


def _demand_proved(found: Proof, options: RunOptions, tell: Tell) -> None:
    said = found.sentences()
    if found.open and options.prove == "refuse":
        raise CourseError(NOT_PROVED.format(sentences="\n  ".join(said)))
    tell(said)


def _tell(course: Course, name: str, warn: Warn, said: list[str], *, again: bool) -> None:
    """Who generates is told each time; who grades only where it is news."""
    if is_new(course.state, name, said) or again:
        for sentence in said:
            warn(sentence)


def _folders(course: Course, name: str, options: RunOptions, lost: Mapping[str, str]) -> list[tuple[str, Path]]:
    handed_in = list(course.submissions(name, options.students))
    for pattern in options.students:
        if not any(fnmatch(student, pattern) for student, _ in handed_in):
            said = [f"\n  {student}: {why}" for student, why in lost.items() if fnmatch(student, pattern)]
            raise CourseError(NOBODY.format(folder=course.folder(course.submitted, pattern, name)) + "".join(said))
    found = [(student, folder) for student, folder in handed_in if student not in options.excluded]
    if not found:
        raise CourseError("nobody is left to be graded: who handed in is excluded")
    return found


@dataclass(slots=True)
class _Run:
    course: Course
    assignment: Assignment
    record: Record
    options: RunOptions
    kept: Kept
    progress: Progress
    total: int
    entries: list[Entry] = field(default_factory=list)
    before: dict[str, Standing] = field(default_factory=dict)
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)
    applied: dict[str, str] = field(default_factory=dict)  # keys of the Results that grades came from
    changed: bool = False

    def look(self) -> None:
        """Where everybody stands before anything changes, from which Results, and how often they have tried."""
        self.applied = self.record.applied(self.assignment.name)
        self.before = {one.student: one for one in self.record.standings(self.assignment.name, recorded=True)}
        for attempt in self.record.attempts(self.assignment.name):
            self.attempts.setdefault(attempt.student, []).append(attempt)

    def sweep(self) -> None:
        """Takes away what a killed run has left half-made."""
        self.kept.sweep()
        sweep_swaps(self.course, self.assignment.name)

    def grade(self, folders: list[tuple[str, Path]], farm: Farm) -> None:
        """Everything that was never judged through the farm; the rest from what is kept."""
        for submission, result in farm(self._left(folders), self.assignment):
            self._record(submission, result)

    def pass_over(self, lost: Mapping[str, str]) -> None:
        """Who has handed in what nobody looks for: in the table, with the reason, and never recorded."""
        for student, why in lost.items():
            if student not in self.options.excluded:
                who = ascii(student[:MOST_LETTERS]) if nobodys(student) else student
                self._done(_left_alone(Submission(who, self.assignment.name), ASTRAY.format(why=why)))

    def _left(self, folders: list[tuple[str, Path]]) -> Iterator[Submission]:
        """What has to be judged; what hasn't is settled on the way."""
        for student, folder in folders:
            found = self._alone(student, partial(self._looked_at, student, folder, self.applied.get(student)))
            if isinstance(found, Entry):
                self._done(found)
            elif found[1] is None:
                yield found[0]
            else:
                self._record(found[0], found[1])

    def _looked_at(self, student: str, folder: Path, applied: str | None) -> Entry | tuple[Submission, Result | None]:
        """How it went, where nothing is to be done; else what is to be recorded, or to be judged before."""
        if why := nobodys(student):
            return _left_alone(Submission(ascii(student[:MOST_LETTERS]), self.assignment.name), why)
        submission = intake.read(folder, student, self.assignment.name, self.assignment.limits)
        kept = None if self.options.force else self.kept.get(engine.key(submission, self.assignment))
        if not self._may_record(student):
            return _left_alone(submission, NO_STUDENT)
        if why := self._spent(submission):
            return _left_alone(submission, why)
        if kept and kept.void:
            kept = None
        if kept and applied == kept.key and self._published(student) and self.record.settled(kept):
            return Entry(student, kept, problem(kept), unchanged=True)
        return submission, kept

    def _may_record(self, student: str) -> bool:
        return self.options.create_students or self.record.knows_student(student)

    def _spent(self, submission: Submission) -> str | None:
        """Why a text isn't graded any more: as many as are allowed were graded before it."""
        graded = [attempt for attempt in self.attempts.get(submission.student, ()) if attempt.points is not None]
        most = self.options.max_attempts
        if not most or len(graded) < most or submission.refusal:
            return None
        text = engine.content(submission)
        return None if any(attempt.content == text for attempt in graded) else SPENT.format(most=most)

    def _published(self, student: str) -> bool:
        return self.course.folder(self.course.autograded, student, self.assignment.name).is_dir()

    def _record(self, submission: Submission, result: Result) -> None:
        if not self.changed:
            self.changed = True
            self.options.before_change()
        self._done(self._alone(submission.student, partial(self._recorded, submission, result), result))

    def _recorded(self, submission: Submission, result: Result) -> Entry:
        """It is kept, then its folder, then the gradebook's rows: each step can be done again."""
        self.kept.put(result)
        publish(result, submission, self.assignment, self.course)
        self.record.write(result, engine.content(submission))
        before = self.applied.get(result.student)
        if before and before != result.key:
            self.kept.drop(before)
        return Entry(result.student, result, problem(result))

    def _alone(self, student: str, step: Callable[[], T], result: Result | None = None) -> T | Entry:
        """One step for one student. What raises there is that one's trouble; a disk without room is everybody's."""
        try:
            return step()
        except DiskFull:
            raise
        except (GradebookError, StorageError) as error:
            why = f"not recorded: {error}"
        except Exception as error:
            why = OURS.format(kind=type(error).__name__, error=error)
        blank = _left_alone(Submission(student, self.assignment.name), why)
        return replace(blank, result=result) if result else blank

    def _done(self, entry: Entry) -> None:
        was = self.before.get(entry.student)
        now = self.record.standing(entry.student, self.assignment.name, recorded=True)
        said = entry.problem
        if said is not None and said == problem(entry.result):
            said = problem(entry.result, now)
        told = replace(entry, result=_without_texts(entry.result), problem=said, before=was, standing=now)
        self.entries.append(told)
        self.progress(told, len(self.entries), self.total)


def nobodys(folder: str) -> str | None:
    """Why no student can have handed in under this name; None where one can.

    >>> nobodys("ada"), nobodys("ada\\n2 bob")
    (None, "a folder of this name isn't looked at: it holds letters that can't be shown. Rename it to the student's id")
    """
    why = unusable(folder) or (RESERVED if folder.startswith(questions.REFERENCE) else None)
    return UNUSABLE.format(why=why) if why else None


def _without_texts(result: Result) -> Result:
    return replace(result, notebooks=tuple(replace(graded, notebook="") for graded in result.notebooks))


def _left_alone(submission: Submission, why: str) -> Entry:
    blank = Result("", submission.student, submission.assignment, submission.timestamp, refusal=why)
    return Entry(submission.student, blank, why)


def problem(result: Result, standing: Standing | None = None) -> str | None:
    """Why the submission isn't graded as a whole, or None: what a person has scored since is graded."""
    if result.refusal is not None:
        return f"refused: {result.refusal}"
    if failed := questions.not_judged(result, standing):
        said = f"grader failure: {next((one.message for one in failed if one.message), 'no verdict')}"
        return said if result.void else f"{said} (the other questions are graded; --force judges it again)"
    return None
