"""What `nbgrader_config.py` names: nbgrader's own commands and formgrader's buttons go through this grader.

`nbgrader autograde NAME` and formgrader's Autograde button use `SandboxedAutograde`; every page made of a submission
(feedback, formgrader's view) is cleaned; a student's page also loses the hidden tests.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.preprocessors import Preprocessor
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import ClearHiddenTests
from traitlets import Bool, Integer, List, Unicode
from traitlets.config import Config

from nbjudge.course import shown as feedback
from nbjudge.course.gradebook import Record
from nbjudge.course.kept import Kept
from nbjudge.course.layout import Course
from nbjudge.course.standings import Standing
from nbjudge.errors import ClusterError, GraderError
from nbjudge.grading import batch, engine, farm
from nbjudge.limits import Limited
from nbjudge.model import Limits, Result
from nbjudge.pages import screen

FEEDBACK_STEPS = [
    "nbgrader.preprocessors.GetGrades",
    "nbjudge.plugin.HideTests",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
PAGE_STEPS = ["nbjudge.plugin.CleanPage"]
PAGE_FILTERS = {"markdown2html": "nbjudge.course.shown.safe_markdown"}


def install(config: Config) -> None:
    """Plugs the grader into nbgrader; call it in `nbgrader_config.py` with `get_config()`."""
    import nbgrader.apps.api
    import nbgrader.apps.autogradeapp

    nbgrader.apps.autogradeapp.Autograde = SandboxedAutograde
    nbgrader.apps.api.Autograde = SandboxedAutograde
    config.GenerateFeedback.preprocessors = FEEDBACK_STEPS
    config.HTMLExporter.preprocessors = PAGE_STEPS
    config.HTMLExporter.filters = PAGE_FILTERS
    config.Execute.store_widget_state = False
    if "plugin_class" not in config.ExportApp:
        config.ExportApp.plugin_class = "nbjudge.course.exporters.GradesCsv"


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
    check_reference = Bool(True, help="Grade the source's own answers first; if a test fails on them, stop.").tag(
        config=True
    )

    def start(self) -> None:
        """Grades what `--assignment` and `--student` name; `NbGraderException` where something isn't graded."""
        self._refuse_what_has_no_meaning_here()
        try:
            entries = self.grade_class(self._log)
        except GraderError as error:
            self.log.error("%s", error)  # noqa: TRY400 -- a sentence for the instructor; the traceback says nothing more
            raise NbGraderException(str(error)) from error
        problems = [f"{entry.student}: {entry.problem}" for entry in entries if entry.problem]
        if problems:
            raise NbGraderException(f"{len(problems)} of {len(entries)} not graded. " + "; ".join(problems))

    def grade_class(self, progress: batch.Progress, *, new_seed: bool = False) -> tuple[batch.Entry, ...]:
        """The whole run, with this configuration."""
        options = batch.Options(
            students=self.coursedir.student_id,
            excluded=frozenset(name for name in self.coursedir.student_id_exclude.split(",") if name),
            force=self.force,
            create_students=self.create_student,
            new_seed=new_seed,
            check_reference=self.check_reference,
            limits=self.limits(),
        )
        return batch.autograde(
            self.course(),
            self.coursedir.assignment_id,
            options,
            self._farm(options.limits),
            progress,
            self.config,
        )

    def course(self) -> Course:
        """nbgrader's configuration of the course as plain data."""
        return course_of(self.coursedir, self)

    def record(self) -> Record:
        """The gradebook, to be used as a context manager."""
        return Record(self.course(), self.config)

    def past(self, name: str) -> tuple[list[Standing], dict[str, Result]]:
        """Where each student stands in an assignment, and by student the Result that it came from, where it is kept.

        Raises `CourseError` where the gradebook knows no such assignment.
        """
        with self.record() as record:
            record.assignment(name, 0)
            found, applied = record.standings(name), record.applied(name)
        kept = Kept(self.course().state)
        return found, {student: result for student, key in applied.items() if (result := kept.get(key))}

    def _farm(self, limits: Limits) -> batch.Farm:
        open_judge = partial(warm_judge, limits, trust_students=self.trust_students, preload=tuple(self.preload))
        if not self.dask:
            return partial(farm.grade_all, open_judge=open_judge, workers=self.workers or None)
        try:
            from nbjudge.grading import cluster
        except ImportError as error:
            raise ClusterError(f"Dask isn't installed ({error}): pip install './grader[cluster]'") from error
        return partial(cluster.grade_all, address=self.dask, open_judge=open_judge, say=self.log.error)

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


def converter_for(assignment: str, *, student: str, **settings: Any) -> SandboxedAutograde:
    """The converter that `nbgrader autograde` would make here: configuration of this folder and of the course.

    `settings` are traits of the converter that win over the configuration.
    """
    from nbgrader.apps.autogradeapp import AutogradeApp

    app = AutogradeApp(log_level=logging.ERROR)
    app.initialize([])
    app.coursedir.assignment_id = assignment
    app.coursedir.student_id = student
    return SandboxedAutograde(coursedir=app.coursedir, parent=app, **settings)


def own_settings() -> dict[str, Any]:
    """The traits that nbgrader's own Autograde doesn't have, by name."""
    inherited = Autograde.class_traits(config=True)
    ours = SandboxedAutograde.class_traits(config=True)
    return {name: trait for name, trait in sorted(ours.items()) if name not in inherited}


def course_of(coursedir: CourseDirectory, converter: Autograde) -> Course:
    """nbgrader's configuration as plain data."""
    return Course(
        root=Path(coursedir.root),
        db_url=coursedir.db_url,
        course_id=coursedir.course_id,
        structure=coursedir.directory_structure,
        source=coursedir.source_directory,
        submitted=coursedir.submitted_directory,
        autograded=coursedir.autograded_directory,
        permissions=int(str(converter.permissions), 8),
        groupshared=coursedir.groupshared,
        ignore=tuple(coursedir.ignore),
        kept_files={name: tuple(files) for name, files in converter.exclude_overwriting.items()},
    )


@contextmanager
def warm_judge(limits: Limits, *, trust_students: bool, preload: tuple[str, ...] = ()) -> Iterator[engine.Runner]:
    """A zygote and the judge on it."""
    from nbjudge.process.zygote import DEFAULT_PRELOAD, Zygote

    with Zygote((*DEFAULT_PRELOAD, *preload), limits=limits, trust_students=trust_students) as zygote:
        yield engine.judged_by(zygote)


class CleanPage(Preprocessor):
    """Outputs, metadata and raw cells of a page, without anything that could act in the reader's browser."""

    enabled = Bool(True).tag(config=True)

    def preprocess(self, notebook: Any, resources: Any) -> tuple[Any, Any]:
        """nbconvert's hook."""
        return _node(feedback.presentable(notebook)), resources


class HideTests(ClearHiddenTests):  # type: ignore[misc] # nbgrader ships no types
    """nbgrader's ClearHiddenTests, which also cleans outputs that quote a hidden line."""

    display_data_priority: Any = List().tag(
        config=True
    )  # the exporter sets it on every step; here nothing is displayed

    def preprocess(self, notebook: Any, resources: Any) -> tuple[Any, Any]:
        """nbconvert's hook."""
        shown = feedback.without_hidden_tests(notebook, self.begin_test_delimeter, self.end_test_delimeter)
        return _node(shown), resources


def _node(document: Any) -> Any:
    plain = json.loads(json.dumps(document))
    return nbformat.from_dict(plain)  # type: ignore[no-untyped-call]  # nbformat has no types
