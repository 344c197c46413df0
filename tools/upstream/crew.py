"""Start workers, one after the other; a crash or a hang costs one run, and the next worker goes on behind it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from tools.upstream.compare import Run

ROOT = Path(__file__).resolve().parents[2]
LOAD_S = 600.0
"""How long importing a file may take."""
Task = tuple[str, str]
"""A test, `Class.method`, and the side it's run on."""


class NotLoaded(Exception):
    """A file that can't be imported."""


def tests_in(file: Path) -> list[str]:
    """The tests of a file.

    Raises: NotLoaded.
    """
    worker = _Hand(file, [])
    try:
        return list(worker.loaded())
    finally:
        worker.stop()


def runs(file: Path, tasks: Sequence[Task], timeout_s: float) -> Iterator[tuple[Task, Run]]:
    """Each task's run, in order.

    Raises: NotLoaded.
    """
    left = list(tasks)
    while left:
        worker = _Hand(file, left)
        try:
            worker.loaded()
            done = 0
            for run in worker.answers(timeout_s):
                yield left[done], run
                done += 1
        finally:
            worker.stop()
        left = left[done:]


class _Hand:
    """One process, and the lines it says."""

    def __init__(self, file: Path, tasks: Sequence[Task]) -> None:
        self._file, self._count = file, len(tasks)
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(  # noqa: S603  # our own module
            [sys.executable, "-m", "tools.upstream.worker", str(file)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
            start_new_session=True,
        )  # fmt: skip
        self._lines: Queue[dict[str, Any] | None] = Queue()
        self._said = ""
        self._ears = [threading.Thread(target=each, daemon=True) for each in (self._read, self._listen)]
        for ear in self._ears:
            ear.start()
        if self._process.stdin:
            self._process.stdin.write(json.dumps(list(tasks)))
            self._process.stdin.close()

    def loaded(self) -> list[str]:
        """Its tests' names, once the file is imported."""
        try:
            line = self._next(LOAD_S)
        except Empty:
            line = None
        if line is None:
            raise NotLoaded(f"{self._file} can't be imported:\n{self._said.strip()[-2000:]}")
        return list(line["tests"])

    def answers(self, timeout_s: float) -> Iterator[Run]:
        """A run for each task until the process ends; the last one says it where it crashed or hung."""
        for _ in range(self._count):
            try:
                line = self._next(timeout_s)
            except Empty:
                yield Run("hung")
                return
            if line is None:
                yield self._died()
                return
            yield Run.from_data(line["ended"])

    def stop(self) -> None:
        """End it, and all that its tests have started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for ear in self._ears:
            ear.join(5.0)  # not for ever: a test may have left a process of its own that keeps the pipe open
        for stream in (self._process.stdout, self._process.stderr):
            if stream:
                stream.close()

    def _next(self, timeout_s: float) -> dict[str, Any] | None:
        return self._lines.get(timeout=timeout_s)

    def _died(self) -> Run:
        code = self._process.wait()
        if code < 0:
            return Run(f"crashed: {signal.Signals(-code).name}")
        return Run(f"exited: {code}", "".join(self._said.splitlines()[-1:]))

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def _listen(self) -> None:
        """What went to stderr, its end: a test may say a great deal."""
        for line in self._process.stderr or ():
            self._said = (self._said + line)[-8000:]
