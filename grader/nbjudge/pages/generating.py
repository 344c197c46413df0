"""`nbgrader generate_assignment` and formgrader's Generate button, which say what an author has got wrong.

First by the source alone, before anything is made. Then, with the rows that nbgrader has made of it, whose each name
is; and the instructor's own answers are graded, which shows what of a test can't be carried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from shutil import rmtree
from typing import Any

import nbformat
import nbgrader
from nbgrader.converters import GenerateAssignment
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import IncludeHeaderFooter, InstantiateTests, SaveCells

from nbjudge.course.authoring import Remark, called, of_names, of_source
from nbjudge.course.generate import NotReleased
from nbjudge.course.gradebook import Record
from nbjudge.errors import CourseError, GraderError
from nbjudge.shown.text import counted, placed

MAKING = "{name}: making the release and the rows of the gradebook"
STOPPED = "{name} isn't generated, and nothing was released: mend {what}, which is named above, and generate it again"
TAKEN_BACK = "{name}: what was released before is taken back, too: the gradebook has the tests of the new source"
TEMPLATES = Path(nbgrader.__file__).parent / "docs" / "source" / "user_guide" / "autotests.yml"
NO_TEMPLATES = (
    "{said!r} is made into tests by {file}, which lies neither beside the notebook nor in the folder of the course"
)
COPY_TEMPLATES = "copy nbgrader's own: cp {templates} {folder}/"
NOT_MADE = (
    "the tests of {path} can't be made again, to see whether the gradebook has them: {error}; run "
    "`nbjudge generate {name} --force`, which says more"
)


class CheckedAssignment(GenerateAssignment):  # type: ignore[misc]  # nbgrader ships no types
    """nbgrader's converter of the same purpose, which releases nothing that can't be graded as it is meant."""

    told: Callable[[str], object] | None = None  # a line for each thing that it does; nbgrader's log by itself

    def start(self) -> None:
        """nbgrader's hook."""
        self._made = False
        self.say(MAKING.format(name=self.coursedir.assignment_id))
        before = Path(self._format_dest(self.coursedir.assignment_id, ".")).is_dir()
        self._demand(self._of_sources())
        known = self._known()
        try:
            super().start()
            if self._made and self._keeps_rows():
                self._demand_gradable(before=before)
        except (NbGraderException, SystemExit):
            if not known and self._known() is not None:  # its first rows: no export has a column of what isn't there
                with self.record() as record:
                    record.ungenerate(self.coursedir.assignment_id, planned=known is not None)
            raise

    def _known(self) -> set[str] | None:
        """The notebooks that the gradebook has of it: none where it is only planned; None where it isn't there."""
        try:
            with self.record() as record:
                return record.rows(self.coursedir.assignment_id) if self._keeps_rows() else None
        except CourseError:  # there is no gradebook yet
            return None

    def _demand_gradable(self, *, before: bool) -> None:
        try:
            self._demand(self._of_names())
            self._try_answers()
        except NbGraderException:
            self._take_back(before=before)
            raise

    def say(self, stage: str) -> None:
        """What is done now, which may take a minute."""
        (self.told or self.log.info)(stage)

    def run_post_convert_hook(self) -> None:
        """nbgrader's hook: it is called where an assignment was made, and not where one was there already."""
        super().run_post_convert_hook()
        self._made = True

    def record(self) -> Record:
        """The gradebook that the rows are made in. Only who knows the course can open it."""
        raise NotImplementedError

    def tried(self) -> Iterable[str]:
        """Grades the instructor's own answers, and what else the course wants tried: sentences to warn with.

        Raises:
            GraderError: it can't be graded as it is.
        """
        raise NotImplementedError

    def _keeps_rows(self) -> bool:
        return not self.no_database and bool(SaveCells(parent=self).enabled)

    def _sources(self) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        folder = Path(self._format_source(self.coursedir.assignment_id, "."))
        for path in sorted(folder.glob(f"{self.coursedir.notebook_id}.ipynb")):
            yield path, _read(path)

    def _of_sources(self) -> Iterator[Remark]:
        for path, document in self._sources():
            yield from of_source(path.stem, document)
            yield from self._of_autotests(path, document)

    def _of_autotests(self, path: Path, document: Mapping[str, Any]) -> Iterator[Remark]:
        """nbgrader makes tests of these lines by a file of templates, and ends in a traceback where there is none."""
        step = InstantiateTests(parent=self)
        said, name = step.autotest_delimiter, step.autotest_filename
        if any(folder.joinpath(name).is_file() for folder in (path.parent, Path())):
            return
        for place, cell in placed(document["cells"]):
            lines = cell["source"].splitlines() if cell["cell_type"] == "code" else []
            if asking := [line for line, text in enumerate(lines, start=1) if said in text]:
                what, cure = NO_TEMPLATES.format(said=said, file=name), _copy(path.parent)
                yield Remark(path.stem, called(place, cell["metadata"].get("nbgrader", {})), asking[0], what, cure)
                return

    def _of_names(self) -> Iterator[Remark]:
        documents = {path.stem: document for path, document in self._sources()}
        with self.record() as record:
            rows = record.assignment(self.coursedir.assignment_id, 0)
        for notebook in rows.notebooks:
            if notebook.name in documents:
                yield from of_names(notebook, documents[notebook.name])

    def _demand(self, remarks: Iterable[Remark]) -> None:
        """Says each; raises where one of them stops."""
        stopping = 0
        for one in remarks:
            stopping += one.stops
            (self.log.error if one.stops else self.log.warning)("%s", one)
        if stopping:
            what = counted(stopping, "thing")
            raise NotReleased(STOPPED.format(what=what, name=self.coursedir.assignment_id))

    def _try_answers(self) -> None:
        try:
            for sentence in self.tried():
                self.log.warning("%s", sentence)
        except CourseError as error:
            self.log.error("%s", error)  # noqa: TRY400 -- a sentence for the author; the traceback says nothing more
            raise NotReleased(
                STOPPED.format(what="the test or its answer", name=self.coursedir.assignment_id)
            ) from error
        except GraderError as error:
            self.log.warning("The instructor's own answers couldn't be tried: %s", error)

    def _take_back(self, *, before: bool) -> None:
        """As nbgrader does with what failed: a release that can't be graded isn't left where it would be handed out."""
        if before:
            self.log.error("%s", TAKEN_BACK.format(name=self.coursedir.assignment_id))
        rmtree(self._format_dest(self.coursedir.assignment_id, "."), ignore_errors=True)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # it has no types
    except Exception as error:  # whatever nbformat finds odd
        raise NbGraderException(f"{path} isn't a notebook: {error}") from error
    return found


def _copy(folder: Path) -> str:
    templates = TEMPLATES if TEMPLATES.is_file() else "autotests.yml, which its documentation has,"
    return COPY_TEMPLATES.format(templates=templates, folder=folder)


def as_generated(path: Path, parent: Any) -> Mapping[str, Any]:
    """A source with the tests that generating makes of its lines `### AUTOTEST …`, which runs the author's own answers.

    `parent` has the course's configuration. Raises `CourseError` where they can't be made.
    """
    document, resources = _read(path), {"metadata": {"path": str(path.parent)}}
    try:
        for step in (IncludeHeaderFooter, InstantiateTests):
            document, resources = step(parent=parent).preprocess(document, resources)
    except Exception as error:  # whatever the author's code raises
        first = next(iter(str(error).splitlines()), "")
        why = f"{type(error).__name__}: {first}"
        raise CourseError(NOT_MADE.format(path=path, error=why, name=path.parent.name)) from error
    return document
