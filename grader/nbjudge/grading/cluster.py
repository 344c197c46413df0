"""Many submissions on a Dask cluster: each worker keeps its own warm zygotes, this process alone writes grades.

A worker gets submissions only after it has shown that it would give the same scores (Python, torch, nbgrader, seegrad,
this engine) and can confine untrusted code. Workers hold no gradebook and need none of the course's folders.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from distributed import Client, Future, Worker, WorkerPlugin, get_worker, wait

from nbjudge.errors import ClusterError, GraderError
from nbjudge.grading import engine
from nbjudge.grading.farm import Crew, OpenJudge
from nbjudge.model import Assignment, Result, Submission

CONNECT_S = 10
QUIET_S = 30.0  # without news for so long, look who is left
LEAST_WAITING, AHEAD = 64, 4  # submissions in memory: so many, or so many a thread
RETRIES = 2
Say = Callable[[str], None]


class Grading(WorkerPlugin):
    """What a worker needs for one assignment; it travels to each one, also to those that join later."""

    def __init__(self, name: str, assignment: Assignment, open_judge: OpenJudge) -> None:
        self.name = name
        self.assignment = assignment
        self.open_judge = open_judge
        self.wanted = engine.environment()
        self.refusal: str | None = None
        self.crew: Crew | None = None

    async def setup(self, worker: Worker) -> None:
        """Dask's hook. A fit worker offers a resource of our name; Dask gives submissions to no other."""
        self.refusal = await asyncio.to_thread(self._ready, worker.state.nthreads)
        if self.refusal is None:
            await worker.set_resources(**{self.name: worker.state.nthreads})

    def _ready(self, threads: int) -> str | None:
        """Open the crew, or say why this worker is unfit."""
        here = engine.environment()
        other = [
            f"{name} {here[name]} instead of {wanted}" for name, wanted in self.wanted.items() if here[name] != wanted
        ]
        if other:
            return f"it has {', '.join(other)}"
        crew = Crew(self.open_judge, threads)
        try:
            crew.warm(self.assignment)
        except (GraderError, OSError) as error:
            crew.close()
            return str(error)
        self.crew = crew
        return None

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002 -- Dask's signature
        """Dask's hook."""
        if self.crew is not None:
            self.crew.close()

    def grade(self, submission: Submission) -> Result:
        """One submission, here."""
        if self.crew is None:
            raise ClusterError(f"this worker doesn't grade: {self.refusal}")
        return self.crew.grade(submission, self.assignment)


def grade_all(
    submissions: Iterable[Submission], assignment: Assignment, *, address: str, open_judge: OpenJudge, say: Say
) -> Iterator[tuple[Submission, Result]]:
    """Like `nbjudge.grading.farm.grade_all`, on the cluster of the scheduler at `address`.

    A submission whose worker dies is given to another one. `say` is told which workers are refused, and why. Raises
    `ClusterError` where there is no scheduler, or no worker that may grade.
    """
    name = _name(assignment)
    try:
        client = Client(address, timeout=CONNECT_S)  # type: ignore[no-untyped-call]  # Dask's
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        client.register_plugin(Grading(name, assignment, open_judge), name=name)
        try:
            threads = _fit(client, name, address, say)
            yield from _graded(client, name, iter(submissions), assignment, max(LEAST_WAITING, AHEAD * threads), say)
        finally:
            with contextlib.suppress(Exception):  # whatever became of the cluster: we are leaving
                client.unregister_worker_plugin(name)  # type: ignore[no-untyped-call]  # Dask's


def _name(assignment: Assignment) -> str:
    """The same for each run of a course's assignment, so that a rerun replaces what a killed run has left."""
    secret = f"{assignment.name} {assignment.seed}".encode()
    return f"grader-{hashlib.sha256(secret).hexdigest()[:16]}"


def _fit(client: Client, name: str, address: str, say: Say) -> int:
    """How many threads grade. Says who doesn't."""
    answers: dict[str, tuple[str, str | None, int]] = client.run(_refusal, name)
    for worker, (host, refusal, _) in sorted(answers.items()):
        if refusal is not None:
            say(f"worker {worker} on {host} is not used: {refusal}")
    threads = sum(threads for _, refusal, threads in answers.values() if refusal is None)
    if not threads:
        reasons = sorted({refusal for _, refusal, _ in answers.values() if refusal}) or ["there is none"]
        raise ClusterError(f"no worker of {address} may grade: {'; '.join(reasons)}")
    return threads


def _refusal(name: str, dask_worker: Worker) -> tuple[str, str | None, int]:
    """On a worker: its host, why it doesn't grade, its threads."""
    return socket.gethostname(), _plugin(dask_worker, name).refusal, dask_worker.state.nthreads


def _grade(submission: Submission, name: str) -> str:
    """On a worker: a Result as text."""
    return _plugin(get_worker(), name).grade(submission).to_json()


def _plugin(worker: Worker, name: str) -> Grading:
    plugin = worker.plugins[name]
    assert isinstance(plugin, Grading)  # noqa: S101 -- for the type checker: the name is ours alone
    return plugin


def _graded(
    client: Client, name: str, submissions: Iterator[Submission], assignment: Assignment, window: int, say: Say
) -> Iterator[tuple[Submission, Result]]:
    """Keeps `window` submissions on the cluster, so that memory here doesn't grow with the class."""
    waiting: dict[Future[str], Submission] = {}
    while True:
        for submission in islice(submissions, window - len(waiting)):
            task = client.submit(_grade, submission, name, pure=False, retries=RETRIES, resources={name: 1})
            waiting[task] = submission
        if not waiting:
            return
        for task in _done(client, list(waiting), name, say):
            submission = waiting.pop(task)
            yield submission, _result(task, submission, assignment)


def _done(client: Client, tasks: list[Future[str]], name: str, say: Say) -> Iterable[Future[str]]:
    """Those that have ended; waits for one, and says so where nobody is left to do it."""
    while True:
        try:
            ended = wait(tasks, timeout=QUIET_S, return_when="FIRST_COMPLETED")  # type: ignore[no-untyped-call]  # Dask's
        except TimeoutError:
            workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
            if not any(name in worker["resources"] for worker in workers.values()):
                say("no worker is left that may grade; waiting for one (Ctrl-C ends, nothing is lost)")
        else:
            return set(ended.done)


def _result(task: Future[str], submission: Submission, assignment: Assignment) -> Result:
    try:
        return Result.from_json(task.result())
    except Exception as error:  # a worker's: whatever it was, it is no verdict on the submission
        blank = Result(
            engine.key(submission, assignment), submission.student, submission.assignment, submission.timestamp
        )
        return engine.failure(blank, assignment, f"{type(error).__name__}: {error}")
