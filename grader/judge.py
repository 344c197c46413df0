"""One notebook: the student's cells in one confined process, the test cells in another → outputs and outcomes.

cell of the student, or graded by hand  → student's process
the instructor's locked cell            → both
test cell                               → judge's process only
"""

from __future__ import annotations

import copy
import hashlib
import select
import socket
import time
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import nbformat
from nbformat import NotebookNode

from .child import Child
from .errors import SandboxError, StudentGone, WireError
from .model import Kind, Limits, Outcome, Run
from .outputs import Outputs, error_output
from .wire import Frame
from .zygote import Zygote

HELLO_S = 20.0
GRACE_S = 3.0  # after an interrupt
FLUSH_S = 2.0


def run_notebook(
    notebook: Mapping[str, Any], files: Mapping[str, bytes], *, zygote: Zygote, seed: int, limits: Limits
) -> Run:
    """Run one notebook and judge its test cells.

    Args:
        notebook: nbformat 4 JSON, sanitised: nbgrader's metadata and the locked cells as the gradebook holds them.
        files: the submission's other files, relative path → bytes; placed where the cells run. Notebooks are left out.
        zygote: where the two processes come from; its own limits bound memory, CPU, processes and files.
        seed: of the secret inputs; each test cell is seeded from it and its grade_id.
        limits: times and bytes of output.

    Returns:
        The notebook with outputs and one Outcome for each test cell. Nothing that the submission does raises here.

    Raises:
        SandboxError: no process could be started.
    """
    nodes = nbformat.from_dict(copy.deepcopy(dict(notebook)))
    started = time.monotonic()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        student, judge = zygote.fork("student", ours), zygote.fork("judge", theirs)
    trial = Trial(nodes, student, judge, seed, limits)
    try:
        trial.hold(files)
    finally:
        ended = [zygote.end(child) for child in (student, judge)]
    cpu_s = sum(end.cpu_s for end in ended if end is not None)
    return Run(trial.notebook, tuple(trial.outcomes), trial.died, time.monotonic() - started, cpu_s)


def is_test(cell: Mapping[str, Any]) -> bool:
    """Does the judge alone run this cell?"""
    marks = cell.get("metadata", {}).get("nbgrader", {})
    return bool(cell.get("cell_type") == "code" and marks.get("grade") and not marks.get("solution"))


def is_instructors(cell: Mapping[str, Any]) -> bool:
    """A locked cell that isn't a test: the judge runs it too."""
    marks = cell.get("metadata", {}).get("nbgrader", {})
    return bool(marks.get("locked") and not marks.get("solution") and not marks.get("grade"))


class Trial:
    """The two processes of one notebook and what came of them."""

    def __init__(self, notebook: NotebookNode, student: Child, judge: Child, seed: int, limits: Limits) -> None:
        self.notebook = notebook
        self.outcomes: list[Outcome] = []
        self.died: str | None = None
        self._student, self._judge = student, judge
        self._seed, self._limits = seed, limits
        self._outputs = Outputs(notebook, limits.output_bytes)
        self._deadline = time.monotonic() + limits.notebook_s
        self._late = False  # the notebook's time is over
        self._count = 0

    def hold(self, files: Mapping[str, bytes]) -> None:
        """Run every cell in order."""
        self._open(files)
        for index, cell in enumerate(self.notebook.cells):
            if cell.cell_type != "code":
                continue
            if not cell.source.strip() and not is_test(cell):
                cell.outputs = []
                continue
            self._count += 1
            cell["execution_count"] = self._count
            self._outputs.begin(cell)
            if is_test(cell):
                self.outcomes.append(self._test(cell, index))
            else:
                self._run(cell, index)
        self._outputs.finish_notebook()

    def _open(self, files: Mapping[str, bytes]) -> None:
        try:
            self._judge.wait_for("hello", HELLO_S)
        except StudentGone as error:
            raise SandboxError(f"The judge couldn't be started: {error}.") from None
        try:
            self._student.wait_for("hello", HELLO_S)
            digest = hashlib.sha256(f"student {self._seed}".encode()).digest()
            self._student.send({"op": "seed", "seed": int.from_bytes(digest[:6])})
            kept = {name: data for name, data in sorted(files.items()) if may_be_placed(name)}
            sizes = [[name, len(data)] for name, data in kept.items()]
            self._student.send({"op": "files", "files": sizes}, b"".join(kept.values()))
        except StudentGone as error:
            self._bury(str(error))

    # ------------------------------------------------------------------ the student's cells

    def _run(self, cell: NotebookNode, index: int) -> None:
        if is_instructors(cell):
            self._instruct(cell.source)
        if self.died is not None:
            return
        try:
            self._student.send({"op": "run", "code": cell.source})
            reply = self._wait(self._student, "execute_reply", cell, index)
        except StudentGone as error:
            self._bury(str(error))
            reply = Frame({"content": {"status": "error", "ename": "DeadKernelError", "evalue": self.died}})
        content = reply.header.get("content")
        self._outputs.finish(cell, content if isinstance(content, dict) else {})

    def _instruct(self, source: str) -> None:
        try:
            self._judge.send({"op": "instructor", "code": source})
            self._wait(self._judge, "done", None, 0)
        except StudentGone:
            pass  # the test cells that follow will say what became of the judge

    def _wait(self, child: Child, kind: str, cell: NotebookNode | None, index: int) -> Frame:
        """Wait for a child's answer, within the cell's time; then interrupt, then kill."""
        end = min(time.monotonic() + self._limits.cell_s, self._deadline)
        interrupted = False
        while True:
            for frame in self._frames((child, self._student), cell, index):
                if frame is not None and frame[0] is child and frame[1].header.get("msg_type") == kind:
                    return _timed_out() if interrupted and kind == "execute_reply" else frame[1]
            if child.gone:
                raise StudentGone(self._why())
            if time.monotonic() >= end:
                self._late = time.monotonic() >= self._deadline
                if interrupted:
                    child.kill()
                    raise StudentGone(self._over_time("didn't react to an interrupt"))
                self._student.interrupt()
                interrupted, end = True, time.monotonic() + GRACE_S
            self._select({child, self._student}, end)

    def _frames(self, children: Any, cell: NotebookNode | None, index: int) -> Any:
        for child in dict.fromkeys(children):
            if child.gone:
                continue
            try:
                for frame in child.receive():
                    if child is self._student and cell is not None:
                        self._outputs.add(frame, cell, index)
                    yield child, frame
            except WireError as error:
                child.kill()
                child.gone = True
                if child is self._student:
                    self.died = f"The student's process was ended: {error}"

    def _select(self, children: set[Child], end: float) -> None:
        descriptors = [fd for child in children for fd in child.descriptors()]
        if descriptors:
            select.select(descriptors, [], [], max(0.0, end - time.monotonic()))

    def _why(self) -> str:
        return self.died or "The student's process ended (a crash, os._exit, or a limit of memory or CPU time)."

    def _over_time(self, how: str) -> str:
        what = f"the notebook's {self._limits.notebook_s:g} s" if self._late else f"{self._limits.cell_s:g} s"
        return f"The student's process was ended: a cell took longer than {what} and {how}."

    def _bury(self, why: str) -> None:
        self.died = self.died or why
        self._student.kill()
        self._student.gone = True

    # ------------------------------------------------------------------ the test cells

    def _test(self, cell: NotebookNode, index: int) -> Outcome:
        marks = cell.metadata["nbgrader"]
        grade_id, points = str(marks["grade_id"]), float(marks.get("points") or 0.0)
        if self.died is not None:
            kind = Kind.TIMED_OUT if self._late else Kind.CRASHED
            return self._shown(cell, Outcome(grade_id, kind, 0.0, points, self.died))
        started = time.monotonic()
        try:
            self._judge.send({"op": "test", "code": cell.source, "grade_id": grade_id, "seed": self._seed})
            said = self._wait_for_verdict(cell, index)
        except StudentGone as error:
            return self._shown(cell, Outcome(grade_id, Kind.GRADER_FAILURE, None, points, f"The judge failed: {error}"))
        took_s = time.monotonic() - started
        self._flush(cell, index)
        return self._shown(cell, self._outcome(said, grade_id, points, took_s))

    def _wait_for_verdict(self, cell: NotebookNode, index: int) -> Mapping[str, Any]:
        """The judge's verdict. Out of time: interrupt the student, then end the student, then the judge."""
        end = min(time.monotonic() + self._limits.cell_s, self._deadline)
        steps = [
            self._student.interrupt,
            lambda: self._bury(self._over_time("didn't react to an interrupt")),
            self._judge.interrupt,
        ]
        self._over = False
        while True:
            for child, frame in self._frames((self._judge, self._student), cell, index):
                if child is self._judge and frame.header.get("msg_type") == "verdict":
                    return dict(frame.header)
            if self._judge.gone:
                raise StudentGone("its process has ended")
            if time.monotonic() >= end:
                self._over, self._late = True, time.monotonic() >= self._deadline
                if not steps:
                    self._judge.kill()
                    raise StudentGone("the test cell took too long")
                steps.pop(0)()
                end = time.monotonic() + GRACE_S
            self._select({self._judge, self._student}, end)

    def _flush(self, cell: NotebookNode, index: int) -> None:
        """Show what the student's functions printed during the test; it never scores."""
        if not self._student.gone:
            try:
                self._student.send({"op": "flush"})
                end = time.monotonic() + FLUSH_S
                while time.monotonic() < end and not self._student.gone:
                    if any(f.header.get("msg_type") == "done" for _, f in self._frames((self._student,), cell, index)):
                        break
                    self._select({self._student}, end)
            except StudentGone as error:
                self._bury(str(error))
        cell.outputs = [output for output in cell.outputs if output.output_type == "stream"]
        self._outputs.finish(cell, {})

    def _outcome(self, said: Mapping[str, Any], grade_id: str, points: float, took_s: float) -> Outcome:
        claims = tuple(said["claims"])
        if self._over:
            text = f"This question took longer than {self._limits.cell_s:g} s."
            if self._late:
                text = f"The notebook took longer than {self._limits.notebook_s:g} s."
            return Outcome(grade_id, Kind.TIMED_OUT, 0.0, points, text, claims=claims)
        if said["gone"] is not None:
            self._bury(f"The answer's process ended: {said['gone']}.")
            return Outcome(grade_id, Kind.CRASHED, 0.0, points, said["gone"], claims=claims)
        if said["fraction"] is None:
            return Outcome(grade_id, Kind.GRADER_FAILURE, None, points, said["message"], claims=claims)
        kind = Kind.PASSED if said["fraction"] == 1.0 else Kind.PARTLY if said["fraction"] > 0.0 else Kind.FAILED
        named = tuple(said["misconceptions"])
        return Outcome(grade_id, kind, round(said["fraction"] * points, 6), points, said["message"], named, claims)

    def _shown(self, cell: NotebookNode, outcome: Outcome) -> Outcome:
        """Put the outcome where a reader of the notebook looks for it."""
        if outcome.kind is Kind.PARTLY:
            result = {"text/plain": f"{outcome.points:g}"}
            cell.outputs.append(
                NotebookNode(output_type="execute_result", data=result, metadata={}, execution_count=self._count)
            )
        elif outcome.kind is not Kind.PASSED:
            lines = outcome.message.splitlines() or [str(outcome.kind)]
            cell.outputs.append(error_output(str(outcome.kind), lines[0], lines))
        return outcome


def _timed_out() -> Frame:
    lines = ["\x1b[0;31mCellTimeoutError\x1b[0m: No reply from kernel before timeout"]
    return Frame({"content": {"status": "error", "ename": "CellTimeoutError", "evalue": "", "traceback": lines}})


def may_be_placed(name: str) -> bool:
    """A relative path below the working folder, and not a notebook.

    >>> [may_be_placed(name) for name in ("data/a.csv", "../x", "/etc/passwd", "ps1.ipynb")]
    [True, False, False, False]
    """
    path = PurePosixPath(name)
    safe = path.parts and not path.is_absolute() and ".." not in path.parts and "\0" not in name
    return bool(safe) and path.suffix.lower() != ".ipynb"
