"""One notebook: the student's cells in one confined process, the test cells in another → outputs and outcomes.

cell of the student, or graded by hand  → student's process
what the release gives                  → both: the judge runs what its tests need, from the release
test cell                               → judge's process only

Both are watched: what comes in time is kept.
"""

from __future__ import annotations

import hashlib
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from functools import cache, lru_cache
from pathlib import PurePosixPath
from typing import Any

import nbformat
from nbformat import NotebookNode

from nbjudge.course.naming import reading
from nbjudge.errors import SandboxError, StudentGone, WireError
from nbjudge.grading.clean import cleaned
from nbjudge.grading.outputs import Outputs, error_output, result_output
from nbjudge.model import CELL_TIMEOUT, Assignment, Ending, Executed, Limits, Naming, Outcome
from nbjudge.process.child import Child
from nbjudge.process.imports import ALWAYS, PRELOADS, TORCH, may_bring_torch, preloads
from nbjudge.process.scribe import Scribe
from nbjudge.process.zygote import Bench, Zygote
from nbjudge.shown.text import text_of
from nbjudge.wire import Packet

HELLO_S = 20.0
GRACE_S = 3.0  # after an interrupt
FLUSH_S = 5.0
LOOK_S = 0.05  # how often a line without a judge is emptied
ENDED = "the process ended (a crash, os._exit, or a limit of memory or CPU time)"
TOO_LONG = "this cell took longer than {seconds:g} s, and was stopped"
Step = Callable[[], None]
RunNotebook = Callable[[Mapping[str, Any], Mapping[str, bytes], Assignment], Executed]


def is_test(cell: Mapping[str, Any]) -> bool:
    """Does the judge alone run this cell?"""
    marks = cell.get("metadata", {}).get("nbgrader", {})
    return bool(cell.get("cell_type") == "code" and marks.get("grade") and not marks.get("solution"))


def may_be_placed(name: str) -> bool:
    """A relative path below the working folder, and not a notebook.

    >>> [may_be_placed(name) for name in ("data/a.csv", "../x", "/etc/passwd", "ps1.ipynb")]
    [True, False, False, False]
    """
    path = PurePosixPath(name)
    safe = path.parts and not path.is_absolute() and ".." not in path.parts and "\0" not in name
    return bool(safe) and path.suffix.lower() != ".ipynb"


def judge_for(
    assignment: Assignment, *, limits: Limits, trust_students: bool, preload: Sequence[str] = ()
) -> AbstractContextManager[RunNotebook]:
    """A warm judge that has imported what this assignment's notebooks import, where that takes seconds."""
    texts = [cell.source for notebook in assignment.notebooks for cell in notebook.cells]
    own = [name for name in assignment.files if name.endswith(".py")]
    texts += [assignment.files[name].decode("utf-8", "replace") for name in own]
    for notebook in assignment.notebooks:  # cells without nbgrader's marks, too
        told = (*notebook.naming.setup, *notebook.naming.brought)
        texts += [statement for _, statements in told for statement in statements]
        texts += [text for _, text in notebook.naming.imported]
    known = preloads(texts, _modules(own))
    shown = [source for notebook in assignment.notebooks for source in notebook.shown]
    return warm_judge(limits, trust_students=trust_students, preload=(*known, *preload), shown=shown)


@contextmanager
def warm_judge(
    limits: Limits, *, trust_students: bool, preload: Sequence[str] = (), shown: Sequence[str] = ()
) -> Iterator[RunNotebook]:
    """A warm zygote, and on it what runs one notebook after another; for those who alone bring torch, one with it."""
    lacks = TORCH not in preload and may_bring_torch([f"import {name}" for name in preload])
    first = (TORCH, *preload) if lacks else tuple(preload)
    with ExitStack() as stack:

        @cache
        def zygote_with(*more: str) -> Zygote:
            names = (*ALWAYS, *more, *first)
            return stack.enter_context(Zygote(names, limits=limits, trust_students=trust_students, shown=shown))

        scribe = stack.enter_context(closing(Scribe(zygote_with())))

        def run(notebook: Mapping[str, Any], files: Mapping[str, bytes], assignment: Assignment) -> Executed:
            more = TORCH not in first and _brings_torch(notebook, {**files, **assignment.files})
            return run_to_be_shown(zygote_with(*PRELOADS[TORCH] if more else ()), scribe, notebook, files, assignment)

        yield run


def _brings_torch(notebook: Mapping[str, Any], files: Mapping[str, bytes]) -> bool:
    own = {name: data.decode("utf-8", "replace") for name, data in files.items() if name.endswith(".py")}
    cells = [text_of(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return may_bring_torch([*cells, *own.values()], _modules(own))


def _modules(files: Iterable[str]) -> set[str]:
    return {PurePosixPath(name).stem for name in files}


def run_to_be_shown(
    zygote: Zygote, scribe: Scribe, notebook: Mapping[str, Any], files: Mapping[str, bytes], assignment: Assignment
) -> Executed:
    """As `run_notebook`, with outputs that may be shown."""
    return cleaned(run_notebook(zygote, notebook, files, assignment), scribe)


def run_notebook(
    zygote: Zygote, notebook: Mapping[str, Any], files: Mapping[str, bytes], assignment: Assignment
) -> Executed:
    """Run one notebook and judge its test cells.

    A test cell whose last expression is a `seegrad.check.score` gets that fraction of its points; one that ends with a
    number from 0 to its points gets these. Nothing that is printed or warned changes a score.

    Args:
        zygote: where the two processes come from; its own limits bound memory, CPU, processes and files.
        notebook: nbformat 4 JSON, sanitised: nbgrader's metadata and the locked cells as the gradebook holds them.
        files: the submission's other files, relative path → bytes; placed where the cells run. Notebooks are left out.
        assignment: its seed of the secret inputs (each test cell is seeded from it and its grade_id), its limits of
            time and output.

    Returns:
        The notebook with outputs and one Outcome for each test cell. Nothing that the submission does raises here.

    Raises:
        SandboxError: no process could be started.
    """
    nodes = nbformat.from_dict(notebook)  # type: ignore[no-untyped-call]  # nbformat has no types; a copy
    started = time.monotonic()
    bench = Bench(zygote)
    trial = Trial(nodes, bench, assignment.seed, assignment.limits)
    try:
        trial.hold(files, assignment.files)
    finally:
        ended, cpu_s = bench.close()
    over = ended and ended.over
    died = f"{trial.died} More exactly: {over}." if trial.died and over else trial.died
    return Executed(trial.notebook, tuple(trial.outcomes), died, time.monotonic() - started, cpu_s)


class Trial:
    """The two processes of one notebook and what came of them."""

    def __init__(self, notebook: NotebookNode, bench: Bench, seed: int, limits: Limits) -> None:
        self.notebook = notebook
        self.outcomes: list[Outcome] = []
        self.died: str | None = None
        self._bench = bench
        self._student, self._judge = bench.student, bench.judge
        self._told: list[dict[str, Any]] = []  # what a judge was told of the instructor's cells and of test cells
        self._seed, self._limits = seed, limits
        self._outputs = Outputs(notebook, limits.output_bytes)
        self._deadline = time.monotonic() + limits.notebook_s
        self._late = False  # the notebook's time is over
        self._stopped = False  # the judge of the last question, by an interrupt: it may wait for an answer no more
        self._by_an_answer = False  # is the process over by a cell whose question is still to come?
        self._count = 0
        self._naming = notebook.metadata.get("naming", {})
        self._whose = text_of(notebook.metadata.get("student"))  # by whose numbers a question that draws them is asked
        self._setup = dict(self._naming.get("setup", ()))
        self._renewed = dict(self._naming.get("renewed", ()))
        self._asked = frozenset(self._naming.get("asked", ()))
        self._imported = frozenset(dict(self._naming.get("imported", ())))
        self._brought = dict(self._naming.get("brought", ()))
        self._own: Mapping[str, bytes] = {}  # the course's own files
        self._cell, self._index = NotebookNode(outputs=[]), 0  # type: ignore[no-untyped-call]  # nbformat has no types

    def hold(self, files: Mapping[str, bytes], own: Mapping[str, bytes]) -> None:
        """Run every cell in order; the course's own files lie beside the tests, all of them beside the student's."""
        self._open(files, own)
        for index, cell in enumerate(self.notebook.cells):
            if cell.cell_type != "code":
                continue
            self._cell, self._index = cell, index
            self._outputs.begin(cell, streams_only=is_test(cell))
            if not cell.source.strip() and not is_test(cell):
                continue
            self._count += 1
            cell["execution_count"] = self._count
            if is_test(cell):
                self.outcomes.append(self._shown(self._test(cell)))
            else:
                self._run(cell)
        self._outputs.finish_notebook()

    def _open(self, files: Mapping[str, bytes], own: Mapping[str, bytes]) -> None:
        self._own = own
        self._greet()
        digest = hashlib.sha256(f"student {self._seed}".encode()).digest()
        sizes, body = _packed(files)
        try:
            self._student.wait_for("hello", HELLO_S)
            self._student.send({"op": "seed", "seed": int.from_bytes(digest[:6]), "student": self._whose})
            self._student.send({"op": "files", "files": sizes}, body)
        except (StudentGone, WireError) as error:
            self._bury(str(error))

    def _greet(self) -> None:
        try:
            self._judge.wait_for("hello", HELLO_S)
        except StudentGone as error:
            raise SandboxError(f"The judge couldn't be started: {error}.") from None
        sizes, body = _packed(self._own)
        naming = {**asdict(Naming()), **self._naming}
        self._judge.send({"op": "naming", "naming": naming, "student": self._whose, "files": sizes}, body)

    # ------------------------------------------------------------------ the student's cells

    def _run(self, cell: NotebookNode) -> None:
        if self._over():
            return
        steps = [self._student.interrupt, lambda: self._bury(self._slow())]
        try:
            self._student.send({"op": "run", "code": cell.source, "cell": self._count})
            answer, in_time = self._wait(self._student, "execute_reply", steps)
            reply = answer.header.get("content") if in_time else self._stopped_cell()
        except StudentGone:
            self._bury(ENDED)
            reply = _error("DeadKernelError", "Kernel died", (str(self.died),))
        self._outputs.finish(cell, reply if isinstance(reply, dict) else {})

    def _stopped_cell(self) -> dict[str, Any]:
        said = TOO_LONG.format(seconds=self._limits.cell_s)
        return _error(CELL_TIMEOUT, said, (f"\x1b[0;31m{CELL_TIMEOUT}\x1b[0m: {said}",))

    def _instruct(self, source: str) -> None:
        said = {"op": "instructor", "code": source}
        try:
            self._judge.send(said)
            self._wait(self._judge, "done", self._steps())
        except StudentGone:
            self._stopped = True
        if self._stopped:
            said["op"] = "lost"
            self._replace_judge()
        self._told.append(said)

    def _bring(self, imports: Sequence[str]) -> None:
        """What a test imports and answers use, for the answers; what can't be had there they will miss themselves."""
        lines = [f"with __import__('contextlib').suppress(Exception): {line}" for line in imports]
        try:
            self._student.send({"op": "run", "code": "\n".join(lines), "cell": self._count})
            self._wait(self._student, "execute_reply", [self._student.interrupt, lambda: self._bury(self._slow())])
        except StudentGone:
            self._bury(ENDED)

    # ------------------------------------------------------------------ the test cells

    def _test(self, cell: NotebookNode) -> Outcome:
        marks = cell.metadata["nbgrader"]
        grade_id, points = str(marks["grade_id"]), float(marks.get("points") or 0.0)
        if self._over():
            return Outcome(grade_id, self._unasked(), 0.0, points, str(self.died))
        asked = {"op": "test", "code": cell.source, "grade_id": grade_id, "seed": self._seed, "points": points}
        asked["renewed"] = list(self._renewed.get(grade_id, ()))
        for statement in self._setup.pop(grade_id, ()):
            self._instruct(statement)
        if needed := self._brought.pop(grade_id, ()):
            self._bring(needed)
        if (effects := self.notebook.metadata.get("effects")) is not None:
            asked["kept"] = effects.get(grade_id, [])
        known = self.notebook.metadata.get("places")
        asked["places"] = None if known is None else known.get(grade_id, {})
        asked["reading"] = _read_once(cell.source, self._asked, self._imported)
        asked["record"] = bool(self.notebook.metadata.get("record"))
        self._told.append({"op": "lost", "code": cell.source})
        try:
            self._judge.send(asked)
            answer, in_time = self._wait(self._judge, "verdict", self._steps())
        except StudentGone as error:
            self._replace_judge()
            if self._stopped:
                return Outcome(grade_id, Ending.TIMED_OUT, 0.0, points, _sentence(self._slow()))
            return Outcome(grade_id, Ending.GRADER_FAILURE, None, points, f"The judge failed: {error}.")
        if self._stopped:
            self._replace_judge()
        self._flush()
        if in_time:
            return self._outcome(answer.header, grade_id, points)
        return self._late_outcome(answer.header, grade_id, points)

    def _unasked(self) -> Ending:
        """How a question ended whose test could not begin: of the first one it is the answer that ended the program."""
        if self._late:
            return Ending.TIMED_OUT
        mine, self._by_an_answer = self._by_an_answer, False
        return Ending.CRASHED if mine else Ending.NOT_REACHED

    def _steps(self) -> list[Step]:
        """What to do, one after the other, when a test cell takes too long: it is the student's code, first of all."""
        self._stopped = False

        def stop_judge() -> None:
            self._stopped = True
            self._judge.interrupt()

        return [self._student.interrupt, stop_judge, self._judge.kill]

    def _replace_judge(self) -> None:
        """Another judge for the questions that follow. What the test cells before have bound isn't known to it."""
        self._bench.end_judge()
        self._judge.gone = True
        if not self._student.gone:
            try:
                self._student.interrupt()  # it may be waiting for an answer
                self._student.send({"op": "renew"})
                self._wait(self._student, "renewed", (), FLUSH_S)
            except StudentGone:
                self._bury(self._slow())
        self._judge = self._bench.replace_judge()
        self._greet()
        for said in self._told:
            try:
                self._judge.send(said)
                self._wait(self._judge, "done", [self._judge.kill])
            except StudentGone:
                if said["op"] == "lost":
                    raise
                said["op"] = "lost"  # it was fast enough before, and isn't now: each of them once
                self._replace_judge()
                break

    def _outcome(self, said: Mapping[str, Any], grade_id: str, points: float) -> Outcome:
        claims, fraction = tuple(said["claims"]), said["fraction"]
        places = {place: tuple(roles) for place, roles in said["places"].items()}
        if said["gone"] is not None:
            self._bury(ENDED if self._student.gone else said["gone"])
            return Outcome(grade_id, Ending.CRASHED, 0.0, points, str(self.died), (), claims)
        if fraction is None:
            kind = Ending.BY_HAND if said["waits"] else Ending.GRADER_FAILURE
            case = {"hidden": said["hidden"], "line": said["line"]}
            return Outcome(grade_id, kind, None, points, said["message"], (), claims, places=places, **case)
        kind = Ending.PASSED if fraction == 1.0 else Ending.PARTLY if fraction > 0.0 else Ending.FAILED
        reached = round(fraction * points, 6)
        misconceptions = tuple(said["misconceptions"])
        outcome = Outcome(grade_id, kind, reached, points, said["message"], misconceptions, claims, said["alone"])
        case = {name: said[name] for name in ("hidden", "reproduce", "line")}
        return replace(outcome, changed=tuple(said["changed"]), held=said["held"], places=places, **case)

    def _late_outcome(self, said: Mapping[str, Any], grade_id: str, points: float) -> Outcome:
        """A verdict that came after its time: the answer was interrupted first, so its own code may be what hung."""
        answers = said["name"] == "KeyboardInterrupt" and not self._stopped and not self._late
        slow = f"the code that this test called took longer than {self._limits.cell_s:g} s" if answers else self._slow()
        claims, line = tuple(said["claims"]), said["line"]
        lines = self._cell.source.splitlines()
        open_line = (
            f"\n    {lines[line - 1].strip()[:300]}"
            if answers and 0 < line <= len(lines) and not said["hidden"]
            else ""
        )
        return Outcome(grade_id, Ending.TIMED_OUT, 0.0, points, _sentence(slow) + open_line, (), claims, line=line)

    def _flush(self) -> None:
        """Show what the student's functions printed during the test; it never scores."""
        if not self._student.gone:
            try:
                self._student.send({"op": "flush"})
                self._wait(self._student, "flushed", (), FLUSH_S)
            except StudentGone:
                self._bury("the process doesn't answer any more")
        self._outputs.finish(self._cell, {})

    def _shown(self, outcome: Outcome) -> Outcome:
        """Put the outcome where a reader of the notebook looks for it."""
        if outcome.kind is Ending.PARTLY:
            self._cell.outputs.append(result_output(f"{outcome.points:g}", self._count))
        elif outcome.kind is not Ending.PASSED:
            lines = outcome.message.splitlines() or [str(outcome.kind)]
            self._cell.outputs.append(error_output(str(outcome.kind), lines[0], lines))
        return outcome

    # ------------------------------------------------------------------ waiting

    def _wait(
        self, asked: Child, kind: str, steps: Sequence[Step], timeout_s: float | None = None
    ) -> tuple[Packet, bool]:
        """The answer of a process, and whether it came in time. Out of time each step is taken, with grace after it.

        Raises:
            StudentGone: the process has ended, or no step has helped.
        """
        end = min(time.monotonic() + (timeout_s or self._limits.cell_s), self._deadline)
        left = list(steps)
        while True:
            for child, packet in self._packets():
                if child is asked and packet.header.get("msg_type") == kind:
                    return packet, len(left) == len(steps)
            if asked.gone:
                raise StudentGone("its process has ended")
            if time.monotonic() >= end:
                self._late = time.monotonic() >= self._deadline
                if not left:
                    raise StudentGone("it took too long")
                left.pop(0)()
                end = time.monotonic() + GRACE_S
                continue
            self._select(end if not self._judge.gone else min(end, time.monotonic() + LOOK_S))

    def _packets(self) -> Iterator[tuple[Child, Packet]]:
        """What has arrived from both; the student's messages become the current cell's outputs."""
        for child in (self._judge, self._student):
            if child.gone:
                continue
            try:
                for packet in child.receive():
                    if child is self._student:
                        self._outputs.add(packet, self._cell, self._index)
                    yield child, packet
            except WireError as error:
                child.kill()
                child.gone = True
                if child is self._student:
                    self._bury(f"its process broke the rules: {error}")

    def _select(self, end: float) -> None:
        if self._judge.gone:
            self._bench.drain()
        descriptors = [*self._judge.descriptors(), *self._student.descriptors()]
        if descriptors:
            select.select(descriptors, [], [], max(0.0, end - time.monotonic()))

    def _over(self) -> bool:
        """Has the student's process ended, or the notebook's time?"""
        if self.died is None and time.monotonic() >= self._deadline:
            self._late = True
            self._bury(self._slow())
        return self.died is not None

    def _slow(self) -> str:
        if self._late:
            return f"the notebook took longer than {self._limits.notebook_s:g} s"
        return f"this cell took longer than {self._limits.cell_s:g} s"

    def _bury(self, why: str) -> None:
        self._by_an_answer = self._by_an_answer or (self.died is None and not is_test(self._cell))
        self.died = self.died or f"The notebook's process was over in code cell {self._count}: {why.rstrip('.')}."
        self._student.kill()
        self._student.gone = True


@lru_cache(maxsize=1024)
def _read_once(source: str, asked: frozenset[str], imported: frozenset[str]) -> dict[str, Any] | None:
    """What a judge is told of a test cell, as JSON can say it: the same for a class."""
    found = reading(source, asked, imported)
    return None if found is None else asdict(found)


def _packed(files: Mapping[str, bytes]) -> tuple[list[list[str | int]], bytes]:
    """Files as a packet holds them: names with sizes, and all their bytes."""
    kept = {name: data for name, data in sorted(files.items()) if may_be_placed(name)}
    return [[name, len(data)] for name, data in kept.items()], b"".join(kept.values())


def _error(name: str, value: str, lines: Sequence[str]) -> dict[str, Any]:
    return {"status": "error", "ename": name, "evalue": value, "traceback": list(lines)}


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}."
