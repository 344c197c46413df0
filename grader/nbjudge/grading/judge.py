"""One notebook: the student's cells in one confined process, the test cells in another → outputs and outcomes.

cell of the student, or graded by hand  → student's process
the instructor's locked cell            → both
test cell                               → judge's process only
"""

from __future__ import annotations

import copy
import socket
import time
from collections.abc import Mapping
from typing import Any

import nbformat

from nbjudge.grading.trial import Trial
from nbjudge.model import Limits, Run
from nbjudge.process.zygote import Zygote


def run_notebook(
    notebook: Mapping[str, Any], files: Mapping[str, bytes], *, zygote: Zygote, seed: int, limits: Limits
) -> Run:
    """Run one notebook and judge its test cells.

    A test cell whose last expression is a `seegrad.check.score` of less than 1 gets that fraction of its points. No
    other last expression, and nothing that is printed or warned, changes a score.

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
    nodes = nbformat.from_dict(copy.deepcopy(dict(notebook)))  # type: ignore[no-untyped-call]  # nbformat has no types
    started = time.monotonic()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        student = zygote.fork("student", ours)
        try:
            judge = zygote.fork("judge", theirs)
        except BaseException:
            zygote.end(student)
            raise
    trial = Trial(nodes, student, judge, seed, limits)
    try:
        trial.hold(files)
    finally:
        ended = [zygote.end(child) for child in (student, judge)]
    cpu_s = sum(end.cpu_s for end in ended if end is not None)
    over = ended[0] and ended[0].over
    died = f"{trial.died} More exactly: {over}." if trial.died and over else trial.died
    return Run(trial.notebook, tuple(trial.outcomes), died, time.monotonic() - started, cpu_s)
