"""Many submissions on this machine: N threads, each with its own warm zygote, results as they come.

Threads are enough: students' cells and tests run in processes of their own, a thread only passes frames.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from typing import Any

from nbjudge.errors import GraderError, SandboxError, ZygoteGone
from nbjudge.grading import engine
from nbjudge.grading.trial import RunNotebook
from nbjudge.model import Assignment, Executed, Result, Submission

STARTS = 3  # of a zygote
AHEAD = 2  # submissions in memory for each worker
Farm = Callable[[Iterable[Submission], Assignment], Iterator[tuple[Submission, Result]]]
OpenJudge = Callable[[Assignment], AbstractContextManager[RunNotebook]]


def cores() -> int:
    """How many workers this process may keep busy."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def grade_all(
    submissions: Iterable[Submission], assignment: Assignment, open_judge: OpenJudge, workers: int | None = None
) -> Iterator[tuple[Submission, Result]]:
    """Each submission with its Result, in the order in which they are done; no result depends on that order.

    `open_judge` starts a warm zygote for an assignment and yields the judge on it. One that dies is replaced, and a
    submission that got no verdict through our own failure is tried once more. Raises `SandboxError` where this machine
    can't confine untrusted code; nothing was graded then.
    """
    with opened(open_judge, workers) as grade:
        yield from grade(submissions, assignment)


@contextmanager
def opened(open_judge: OpenJudge, workers: int | None = None) -> Iterator[Farm]:
    """As `grade_all`, for one class after another on the same zygotes: each takes seconds to start."""
    count = max(1, workers or cores())
    crew = Crew(open_judge, count)
    with ThreadPoolExecutor(count, thread_name_prefix="grader") as pool:

        def grade(submissions: Iterable[Submission], assignment: Assignment) -> Iterator[tuple[Submission, Result]]:
            def one(submission: Submission) -> tuple[Submission, Result]:
                return submission, crew.grade(submission, assignment)

            return _as_completed(pool, one, iter(submissions), window=count * AHEAD)

        try:
            yield grade
        finally:  # also when the caller stops early: what is under way ends with its zygote
            pool.shutdown(wait=False, cancel_futures=True)
            crew.close()


class Crew:
    """Warm zygotes, each used by one thread at a time."""

    def __init__(self, open_judge: OpenJudge, count: int) -> None:
        self._all = [_Worker(open_judge) for _ in range(count)]
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in self._all:
            self._idle.put(worker)

    def grade(self, submission: Submission, assignment: Assignment) -> Result:
        """On the next free one. Raises `SandboxError` where this machine can't confine."""
        worker = self._idle.get()
        try:
            return worker.grade(submission, assignment)
        finally:
            self._idle.put(worker)

    def warm(self, assignment: Assignment) -> None:
        """Starts one now. Raises `SandboxError` where this machine can't confine."""
        self._all[0].open(assignment)

    def close(self) -> None:
        """Ends them all, and what is under way on them."""
        for worker in self._all:
            worker.stop()


class _Worker:
    """A zygote, started when first needed, and replaced when it fails."""

    def __init__(self, open_judge: OpenJudge) -> None:
        self._open_judge = open_judge
        self._opened: AbstractContextManager[RunNotebook] | None = None
        self._judge: RunNotebook | None = None
        self._over = False

    def grade(self, submission: Submission, assignment: Assignment) -> Result:
        first = self._first(submission, assignment)
        return first or engine.grade(submission, assignment, self._run, give_up=True)

    def _first(self, submission: Submission, assignment: Assignment) -> Result | None:
        """Its Result, or None where we have failed: a judge that was killed, say for want of memory."""
        try:
            result = engine.grade(submission, assignment, self._run, give_up=False)
        except SandboxError:
            raise
        except Exception:  # whatever it was, a fresh zygote may not have it
            self.close()
            return None
        return None if result.failed_by_us else result

    def _run(self, document: Mapping[str, Any], files: Mapping[str, bytes], assignment: Assignment) -> Executed:
        if self._over:
            raise GraderError("the run was stopped")
        judge = self._judge or self.open(assignment)
        try:
            return judge(document, files, assignment)
        except SandboxError as error:  # the machine could confine when the zygote was opened: this one has died
            raise GraderError(f"no process could be started: {error}") from error

    def open(self, assignment: Assignment) -> RunNotebook:
        """A warm judge; what kills a few in a row kills them all, and ends the run."""
        for attempt in range(1, STARTS + 1):
            opened = self._open_judge(assignment)
            try:
                judge = self._judge = opened.__enter__()
            except ZygoteGone as error:
                if attempt == STARTS:
                    raise SandboxError(f"No process for students' code could be started: {error}") from error
            else:
                self._opened = opened
                return judge
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        opened, self._opened, self._judge = self._opened, None, None
        if opened is not None:
            with suppress(Exception):  # a dead zygote may fail to say goodbye
                opened.__exit__(None, None, None)

    def stop(self) -> None:
        self._over = True
        self.close()


def _as_completed(
    pool: ThreadPoolExecutor,
    one: Callable[[Submission], tuple[Submission, Result]],
    submissions: Iterator[Submission],
    window: int,
) -> Iterator[tuple[Submission, Result]]:
    """Keeps `window` submissions under way, so that memory doesn't grow with the class."""
    pending: set[Future[tuple[Submission, Result]]] = {
        pool.submit(one, submission) for submission in islice(submissions, window)
    }
    while pending:
        done, pending = wait(pending, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()
        pending |= {pool.submit(one, submission) for submission in islice(submissions, window - len(pending))}
