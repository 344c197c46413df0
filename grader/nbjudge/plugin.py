"""What `nbgrader_config.py` names: nbgrader's own commands and formgrader's buttons go through this grader.

`nbgrader autograde NAME` and formgrader's Autograde button use `SandboxedAutograde`; every page made of a submission
(feedback, formgrader's view) is made by `SafePages`; a student's page also loses the hidden tests.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets import Bool, Dict, Enum, Float, Integer, List, Unicode, default
from traitlets.config import Config, Configurable

from nbjudge.course.exporters import CanvasCsv, GradesCsv, MoodleCsv
from nbjudge.course.gradebook import Record, alone, held
from nbjudge.course.intake import handed_in
from nbjudge.course.kept import Kept
from nbjudge.course.layout import Course
from nbjudge.course.office.backups import back_up
from nbjudge.course.office.passback import Passback
from nbjudge.course.office.standings import Standing
from nbjudge.errors import BusyError, ClusterError, CourseError, GraderError
from nbjudge.grading import batch, farm, trial
from nbjudge.grading.prove import Proof
from nbjudge.model import Limits, Result
from nbjudge.pages import regrade, screen
from nbjudge.pages.exported import WEB, SafePages
from nbjudge.pages.feedback import HideTests, Sheet, exercises, is_made_of, made_of, note_made_of
from nbjudge.pages.generating import CheckedAssignment
from nbjudge.pages.validating import VisibleTests
from nbjudge.shown.hidden import hidden_before

FEEDBACK_STEPS = [
    "nbgrader.preprocessors.GetGrades",
    "nbjudge.pages.feedback.HideTests",
    "nbjudge.pages.feedback.HoldBack",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
TEMPLATES = Path(__file__).parent / "pages" / "templates"
TIMESTAMP = "timestamp.txt"
WHOSE = "submission_secret.txt"  # nbgrader's, of each submission: its page is released under a name made of it
SECRET = re.compile("[0-9a-f]{32,512}")
DEFAULT = Limits()


def install(config: Config) -> None:
    """Plugs the grader into nbgrader; call it in `nbgrader_config.py` with `get_config()`."""
    import nbgrader.apps.api
    import nbgrader.apps.autogradeapp
    import nbgrader.apps.generateassignmentapp
    import nbgrader.apps.generatefeedbackapp
    import nbgrader.apps.validateapp
    import nbgrader.server_extensions.formgrader.formgrader as formgrader

    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # it calls `alembic`
    nbgrader.apps.autogradeapp.Autograde = SandboxedAutograde
    nbgrader.apps.api.Autograde = SandboxedAutograde
    nbgrader.apps.generateassignmentapp.GenerateAssignment = TriedAssignment
    nbgrader.apps.api.GenerateAssignment = TriedAssignment
    nbgrader.apps.generatefeedbackapp.GenerateFeedback = FeedbackPages
    nbgrader.apps.validateapp.Validator = VisibleTests
    nbgrader.apps.api.GenerateFeedback = FeedbackPages
    formgrader.HTMLExporter, formgrader.web = SafePages, WEB
    CourseDirectory.get_existing_timestamp = _existing_timestamp
    nbgrader.apps.api.NbGraderAPI.get_submitted_timestamp = _submitted_timestamp
    config.GenerateFeedback.preprocessors = FEEDBACK_STEPS
    config.Execute.store_widget_state = False
    if "collect" not in config.ExchangeFactory:
        config.ExchangeFactory.collect = "nbjudge.course.office.collect.PlainCollect"
    if "plugin_class" not in config.ExportApp:
        config.ExportApp.plugin_class = "nbjudge.course.exporters.GradesCsv"


def installed() -> bool:
    """Whether `nbgrader autograde` is this grader here; ask it when the configuration has been read."""
    from nbgrader.apps import autogradeapp

    return autogradeapp.Autograde is SandboxedAutograde


def _existing_timestamp(_: CourseDirectory, folder: str) -> datetime | None:
    """In place of nbgrader's, which raises for what a student may have written there."""
    return handed_in(Path(folder))


def _submitted_timestamp(api: Any, assignment: str, student: str) -> datetime | None:
    place = api.coursedir.format_path(api.coursedir.submitted_directory, student, assignment)
    return handed_in(Path(place))


def _seconds(default: float, help: str) -> Any:
    return Float(default, min=0.1, help=help).tag(config=True)


def _whole(default: int, help: str) -> Any:
    return Integer(default, min=1, help=help).tag(config=True)


class Limited(Configurable):
    """The limits as traits, `max_` before each: `c.SandboxedAutograde.max_cell_s = 10` in nbgrader_config.py."""

    max_cell_s = _seconds(DEFAULT.cell_s, "Wall-clock seconds that one cell may take, a student's or a test.")
    max_notebook_s = _seconds(
        DEFAULT.notebook_s, "Wall-clock seconds that one notebook may take, all its cells together."
    )
    max_cpu_s = _whole(DEFAULT.cpu_s, "CPU seconds of one notebook's processes, all that it starts together.")
    max_memory_bytes = _whole(
        DEFAULT.memory_bytes,
        "Memory of one notebook's processes together, beyond what they share with the warm process. Each process alone "
        "is held to it at once; their sum is looked at four times a second.",
    )
    max_processes = _whole(DEFAULT.processes, "Processes and threads that one notebook may have at a time.")
    max_files = _whole(DEFAULT.files, "Files that one process of a notebook may have open.")
    max_file_bytes = _whole(DEFAULT.file_bytes, "Size of a file that a notebook may write.")
    max_output_bytes = _whole(
        DEFAULT.output_bytes,
        "Output of one cell that is kept, twice that of all cells together; the rest is cut off as it comes.",
    )
    max_notebook_bytes = _whole(DEFAULT.notebook_bytes, "Size of a notebook that may be handed in.")
    max_submission_bytes = _whole(DEFAULT.submission_bytes, "Size of all other files of a submission together.")

    def limits(self) -> Limits:
        """The same as plain data.

        >>> Limited(max_cell_s=5).limits().cell_s
        5.0
        """
        return Limits(**{field.name: getattr(self, f"max_{field.name}") for field in fields(Limits)})


class SandboxedAutograde(Limited, Autograde):  # type: ignore[misc] # nbgrader ships no types
    """nbgrader's converter of the same purpose: same folders, same gradebook, another way to run and judge.

    The tests run outside the student's process, in parallel, and each submission is recorded in one transaction.
    """

    workers = Integer(0, help="How many submissions are graded at once; 0: one per core.").tag(config=True)
    trust_students = Bool(False, help="Run students' code even where this machine can't confine it.").tag(config=True)

    dask = Unicode("", help="Grade on the Dask cluster of this scheduler, such as tcp://10.0.0.1:8786.").tag(
        config=True
    )
    preload = List(
        Unicode(),
        help="What notebooks import besides torch, numpy and seegrad: imported once, not once a submission.",
    ).tag(config=True)
    check_reference = Bool(
        True, help="Grade the source's own answers first; if a test fails on them, stop. False: go on all the same."
    ).tag(config=True)

    max_attempts = Integer(
        0, min=0, help="How many texts of one student are graded; later ones aren't, and the last grades stay. 0: all."
    ).tag(config=True)
    backup = Bool(True, help="Copy the gradebook to .grader/backups before a run changes it.").tag(config=True)
    prove = Enum(
        ["refuse", "warn", "off"],
        "warn",
        help="Hand in wrong answers that deserve no points (the release as it is, None, an object that agrees with "
        "everything, …); where a question gives them some: refuse to record anything, warn, or don't try.",
    ).tag(config=True)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.warnings: list[str] = []
        self.students: tuple[str, ...] = ()  # patterns, in place of nbgrader's one

    def start(self) -> None:
        """Grades what `--assignment` and `--student` name; `NbGraderException` where something isn't graded."""
        self._refuse_what_has_no_meaning_here()
        try:
            entries = self.grade_class(self._log)
        except GraderError as error:
            self.log.error("%s", error)  # noqa: TRY400 -- a sentence for the instructor; the traceback says nothing more
            raise NbGraderException(str(error)) from error
        for line in regrade.told(entries):
            self.log.info("%s", line)
        for sentence in self.warnings:
            self.log.warning("%s", sentence)
        problems = [screen.summary(entry) for entry in entries if entry.problem]
        if problems:
            raise NbGraderException(f"{len(problems)} of {len(entries)} not graded. " + "; ".join(problems))

    def grade_class(
        self, progress: batch.Progress, *, new_seed: bool = False, say: Callable[[str], object] | None = None
    ) -> tuple[batch.Entry, ...]:
        """The whole run, with this configuration; `say` is told where the gradebook was copied to."""
        name, options = self.coursedir.assignment_id, self._options(new_seed=new_seed, say=say)
        with self._farm(options.limits) as grade:
            return batch.autograde(self.course(), name, options, grade, progress, self.config, self.warnings.append)

    def proof(self) -> Proof:
        """Which adversaries pass which questions."""
        options = self._options(new_seed=False)
        with self._farm(options.limits) as grade:
            return batch.proof(self.course(), self.coursedir.assignment_id, options, grade, self.config)

    def rehearse(self, say: Callable[[str], object]) -> list[str]:
        """What a run tries first, as it tells `say`: sentences to warn with. `CourseError` where the run would stop."""
        found: list[str] = []
        if self.check_reference:
            options, name = replace(self._options(new_seed=False), say=say), self.coursedir.assignment_id
            with self._farm(options.limits) as grade:
                batch.rehearse(self.course(), name, options, grade, self.config, found.append)
        return found

    def _options(self, *, new_seed: bool, say: Callable[[str], object] | None = None) -> batch.RunOptions:
        return batch.RunOptions(
            students=self.students or (self.coursedir.student_id,),
            excluded=frozenset(name for name in self.coursedir.student_id_exclude.split(",") if name),
            force=self.force,
            create_students=self.create_student,
            new_seed=new_seed,
            reference="passes" if self.check_reference else "shows",
            max_attempts=self.max_attempts,
            before_change=partial(self.save, say or self.log.info),
            prove=self.prove,
            limits=self.limits(),
        )

    def save(self, say: Callable[[str], object]) -> None:
        """A copy of the gradebook as it is, and a line that says where; nothing where `backup` is off."""
        if self.backup:
            say(f"The gradebook as it was: {back_up(self.course())}")

    def course(self) -> Course:
        """nbgrader's configuration of the course as plain data."""
        return course_of(self.coursedir, self)

    def record(self) -> Record:
        """The gradebook, to be used as a context manager."""
        return Record(self.course(), self.config)

    def alone(self) -> AbstractContextManager[Record]:
        """The gradebook, while no other command changes grades; `BusyError` names the one that does."""
        return alone(self.course(), self.config)

    def past(self, name: str) -> tuple[list[Standing], dict[str, Result]]:
        """Where each student stands in an assignment, and by student the Result that it came from, where it is kept.

        Raises `CourseError` where the gradebook knows no such assignment.
        """
        with self.record() as record:
            record.assignment(name, 0)
            found, applied = record.standings(name), record.applied(name)
        kept = Kept(self.course().state)
        return found, {student: result for student, key in applied.items() if (result := kept.get(key))}

    def given(self, more: Sequence[str] = ()) -> list[Path]:
        """Folders with what students were given; raises `CourseError` for one that isn't there."""
        released = self.coursedir.format_path(self.coursedir.release_directory, ".", self.coursedir.assignment_id)
        if missing := [name for name in more if not Path(name).is_dir()]:
            raise CourseError(f"there is no folder {missing[0]}")
        return [Path(released), *map(Path, more)]

    def language(self) -> str:
        """The one that the course's pages are in."""
        return str(FeedbackPages(parent=self, coursedir=self.coursedir).language)

    def _farm(self, limits: Limits) -> AbstractContextManager[farm.Farm]:
        open_judge = partial(
            trial.judge_for, limits=limits, trust_students=self.trust_students, preload=tuple(self.preload)
        )
        if not self.dask:
            return farm.opened(open_judge, self.workers or None)
        try:
            from nbjudge.grading import cluster
        except ImportError as error:
            raise ClusterError(f"Dask isn't installed ({error}): pip install './grader[cluster]'") from error
        return nullcontext(partial(cluster.grade_all, address=self.dask, open_judge=open_judge, say=self.log.error))

    def _refuse_what_has_no_meaning_here(self) -> None:
        if self.coursedir.notebook_id != "*":
            self.log.warning("--notebook is not used here: a submission is graded as a whole")
        if self.config.Execute.get("enabled", True) is False:
            raise NbGraderException(
                "--no-execute is not possible here: scores come from tests that run, never from outputs"
            )

    def _log(self, entry: batch.Entry, done: int, total: int) -> None:
        level = logging.ERROR if entry.problem else logging.INFO
        self.log.log(level, "%d/%d %s", done, total, screen.summary(entry))


class TriedAssignment(CheckedAssignment):
    """nbgrader's GenerateAssignment, which then grades the instructor's own answers as a run would."""

    def start(self) -> None:
        """nbgrader's hook: nobody grades meanwhile what is made anew."""
        try:
            with held(self._grader().course(), self.config):
                super().start()
        except BusyError as error:
            self.log.error("%s", error)  # noqa: TRY400 -- a sentence for the author; the traceback says nothing more
            raise NbGraderException(str(error)) from error

    def record(self) -> Record:
        """The course's gradebook."""
        return self._grader().record()

    def tried(self) -> list[str]:
        """Sentences to warn with; `GraderError` where it can't be graded as it is."""
        return self._grader().rehearse(self.say)

    def _grader(self) -> SandboxedAutograde:
        return SandboxedAutograde(coursedir=self.coursedir, parent=self.parent)


def converter_for(assignment: str, *, student: str, **settings: Any) -> SandboxedAutograde:
    """The converter that `nbgrader autograde` would make here: configuration of this folder and of the course.

    `settings` are traits of the converter that win over the configuration. Raises `CourseError` where no course is.
    """
    from nbgrader.apps.autogradeapp import AutogradeApp

    app = AutogradeApp(log_level=logging.ERROR)
    app.initialize([])
    app.coursedir.assignment_id = assignment
    app.coursedir.student_id = student
    converter = SandboxedAutograde(coursedir=app.coursedir, parent=app, **settings)
    converter.course().demand_there()
    return converter


def generator_for(assignment: str, say: Callable[[str], object]) -> Any:
    """nbgrader's converter from a source to its release and its rows, configured as here; `say` hears what it does."""
    from nbgrader.apps.generateassignmentapp import GenerateAssignmentApp

    app = GenerateAssignmentApp(log_level=logging.WARNING)
    app.initialize([])
    app.coursedir.assignment_id = assignment
    made = TriedAssignment(coursedir=app.coursedir, parent=app)
    made.told = say
    return made


def own_settings() -> Iterator[tuple[str, Any]]:
    """The traits that nbgrader doesn't have, each by the name that `nbgrader_config.py` sets it by."""
    for kind in (SandboxedAutograde, FeedbackPages, GradesCsv, CanvasCsv, MoodleCsv, Passback):
        for name, trait in sorted(kind.class_traits(config=True).items()):
            if trait.this_class.__module__.partition(".")[0] == __package__:
                yield f"c.{kind.__name__}.{name}", trait


def course_of(coursedir: CourseDirectory, converter: Autograde) -> Course:
    """nbgrader's configuration as plain data."""
    return replace(
        folders_of(coursedir),
        permissions=int(str(converter.permissions), 8),
        groupshared=coursedir.groupshared,
        ignore=tuple(coursedir.ignore),
        kept_files={name: tuple(files) for name, files in converter.exclude_overwriting.items()},
    )


class FeedbackPage(SafePages):
    """The exporter with our template, whatever the configuration says of nbgrader's own."""

    def __init__(self, config: Config | None = None, **more: Any) -> None:
        ours = {"template_name": "nbjudge", "extra_template_basedirs": [str(TEMPLATES)]}
        given = config or Config()
        both = Config({**given, "HTMLExporter": {**given.HTMLExporter, **ours}})
        super().__init__(config=both, **more)  # type: ignore[no-untyped-call]  # nbconvert has few types


class FeedbackPages(GenerateFeedback):  # type: ignore[misc] # nbgrader ships no types
    """nbgrader's converter of the same purpose: same folders, another page, and nothing given away before the date."""

    hold_back = Bool(
        True,
        help="Until the last student's due date say nothing of what hidden tests asked and expected. Without a due "
        "date there is nothing to wait for; hidden cases are then not written out as code.",
    ).tag(config=True)
    own_page = Bool(True, help="Our page; False: nbgrader's, with the same held back.").tag(config=True)
    language = Enum(("en", "zh_CN"), "en", help="The language of the page's own words.").tag(config=True)
    links = Dict(
        value_trait=Unicode(),
        key_trait=Unicode(),
        help="Where a student reads on, by misconception or grade_id: {'M05': 'https://…/05.html#remedies'}.",
    ).tag(config=True)

    @default("exporter_class")
    def _exporter_class_default(self) -> Any:
        return FeedbackPage if self.own_page else SafePages

    def init_single_notebook_resources(self, notebook_filename: str) -> Any:
        """nbgrader's, and what the page says."""
        resources = super().init_single_notebook_resources(notebook_filename)
        asked = resources["nbgrader"]
        resources["feedback"] = self.sheet(asked["notebook"], asked["assignment"], asked["student"]).told()
        return resources

    def sheet(self, notebook: str, assignment: str, student: str) -> Sheet:
        """What this student may know now."""
        course = folders_of(self.coursedir)
        with Record(course, self.config) as record:
            standing = record.standing(student, assignment) or Standing(student, assignment, handed_in=False)
            key, closes = record.applied(assignment).get(student, ""), record.closes(assignment)
            who = record.named(student) if standing.handed_in else student
        over = closes is not None and closes <= datetime.now(UTC).replace(tzinfo=None)
        source = course.folder(course.source, ".", assignment) / f"{notebook}.ipynb"
        result = Kept(course.state).get(key)
        return Sheet(
            notebook,
            standing,
            result,
            exercises(source),
            who=who,
            language=self.language,
            held_until=closes if self.hold_back and not over else None,
            over=over or not self.hold_back,
            late=frozenset(self._asked_late(result, notebook)),
            links=self.links,
        )

    def _asked_late(self, result: Result | None, notebook: str) -> Iterator[str]:
        """The questions that were asked after hidden tests."""
        marks = HideTests(parent=self)
        for graded in result.notebooks if result else ():
            cells = json.loads(graded.notebook)["cells"] if graded.name == notebook and graded.notebook else []
            joined = [{"source": "".join(cell["source"])} for cell in cells]
            asked = hidden_before(joined, marks.begin_test_delimeter, marks.end_test_delimeter)
            for cell, (_, late) in zip(cells, asked, strict=True):
                if late:
                    yield str(cell["metadata"].get("nbgrader", {}).get("grade_id"))

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        """nbgrader asks for something newer handed in; here a page is made anew where it would say something else.

        Such pages go before nbgrader looks, which would say that it skips what is then updated.
        """
        self._made_of = self._asks_what_is_known(assignment_id, student_id)
        target = Path(self._format_dest(assignment_id, student_id))
        pages = [target / f"{Path(path).stem}.html" for path in self.notebooks]
        left_alone = self.force or student_id in self.coursedir.student_id_exclude.split(",")
        if target.exists() and not left_alone and not is_made_of(target, pages, self._made_of):
            self.log.warning("Updating existing assignment: %s", target)
            for page in pages:
                page.unlink(missing_ok=True)
            if self.coursedir.notebook_id == "*":  # nbgrader asks then for the folder
                shutil.rmtree(target)
        return bool(super().init_destination(assignment_id, student_id))

    def _asks_what_is_known(self, assignment: str, student: str) -> str:
        """A short text for all that a student's pages are made of."""
        sheets = [self.sheet(Path(path).stem, assignment, student).told() for path in self.notebooks]
        with Record(folders_of(self.coursedir), self.config) as record:
            said = record.comments(student, assignment)
        return made_of(self.notebooks, [sheets, said, self.own_page])

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """nbgrader would copy all that was handed in; a page needs beside it what `release_feedback` reads.

        Who has no secret there that can be one gets a page under a name that nobody knows, and holds up no class.
        """
        source, target = (Path(make(assignment_id, student_id)) for make in (self._format_source, self._format_dest))
        target.mkdir(parents=True, exist_ok=True)
        handed_in = {name: _text(source / name) for name in (TIMESTAMP, WHOSE)}
        if not SECRET.fullmatch(handed_in[WHOSE]):
            handed_in[WHOSE] = secrets.token_hex(64)
        for name, text in handed_in.items():
            (target / name).unlink(missing_ok=True)
            (target / name).write_text(text, encoding="utf-8")
        note_made_of(target, self._made_of)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def folders_of(coursedir: CourseDirectory) -> Course:
    """The folders of a course that nbgrader's configuration names."""
    return Course(
        root=Path(coursedir.root),
        db_url=coursedir.db_url,
        course_id=coursedir.course_id,
        structure=coursedir.directory_structure,
        source=coursedir.source_directory,
        submitted=coursedir.submitted_directory,
        autograded=coursedir.autograded_directory,
    )
