"""A real scheduler and real workers in processes of their own: the same grades, whoever of them dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import ENVIRONMENT, python
from nbjudge_tests.classroom.gradebook import Rows, rows
from nbjudge_tests.crashes import children, until, workers

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

GRACE_S = 10.0
OTHER_TORCH = """
import importlib.metadata as metadata, runpy
told = metadata.version
metadata.version = lambda name: "9.9.9" if name == "torch" else told(name)
runpy.run_module("distributed.cli.dask_worker", run_name="__main__", alter_sys=True)
"""


Start = Callable[..., "subprocess.Popen[bytes]"]


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, Start]]:
    """A scheduler's address and what starts a worker of it; all are ended afterwards."""
    place, running = folder / "scheduler.json", []

    def start(*arguments: str, code: str | None = None) -> subprocess.Popen[bytes]:
        program = ["-c", code] if code else ["-m", "distributed.cli.dask_worker"]
        command = [
            sys.executable,
            *program,
            "--scheduler-file",
            str(place),
            "--nthreads",
            "1",
            "--no-dashboard",
            *arguments,
        ]
        with (folder / f"worker{len(running)}.log").open("wb") as log:
            running.append(subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=log, stderr=log))
        return running[-1]

    with (folder / "scheduler.log").open("wb") as log:
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
        scheduler = subprocess.Popen(
            [*command, "--no-dashboard", "--scheduler-file", str(place)],
            cwd=folder,
            env=ENVIRONMENT,
            stdout=log,
            stderr=log,
        )
    try:
        yield until(lambda: json.loads(place.read_text())["address"] if place.exists() else None), start
    finally:
        for process in [*running, scheduler]:
            process.terminate()
        for process in [*running, scheduler]:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait for its end; a worker whose scheduler went first may wait for it for ever."""
    try:
        process.wait(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.mark.whole
def test_the_same_grades_though_a_worker_dies_in_mid_run(course: Path, alone: Rows, tmp_path: Path) -> None:
    with cluster(tmp_path) as (address, start):
        nanny, _ = start(), start("--no-nanny")
        until(lambda: True if workers(address) == 2 else None)
        command = [sys.executable, "-m", "nbjudge", "autograde", small.NAME, "--dask", address]
        running = subprocess.Popen(command, cwd=course, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("4/"):
                (victim,) = [pid for pid in children(nanny.pid) if "resource_tracker" not in command_of(pid)][-1:]
                os.kill(victim, signal.SIGKILL)
                break
        said = running.stderr.read()
        running.stderr.close()
        assert running.wait() == 0, said
        assert "16/16 " in said
    assert rows(course) == alone


@pytest.mark.whole
def test_a_coordinator_that_is_killed_leaves_nothing_and_the_next_one_goes_on(
    course: Path, alone: Rows, tmp_path: Path
) -> None:
    with cluster(tmp_path) as (address, start):
        workers_of_ours = [start("--no-nanny"), start("--no-nanny")]
        until(lambda: True if workers(address) == 2 else None)
        command = [sys.executable, "-m", "nbjudge", "autograde", small.NAME, "--dask", address]
        killed = subprocess.Popen(command, cwd=course, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        assert killed.stderr is not None
        while not killed.stderr.readline().startswith("3/"):
            assert killed.poll() is None
        killed.kill()
        killed.wait()
        killed.stderr.close()
        until(lambda: True if not tasks(address) else None)
        said = python(course, "-m", "nbjudge", "autograde", small.NAME, "--dask", address)
        assert "unchanged" in said
        until(lambda: True if not any(zygotes(worker.pid) for worker in workers_of_ours) else None)
        assert tasks(address) == {}
    assert rows(course) == alone


def tasks(address: str) -> dict[str, Any]:
    """What the scheduler still has to do, or keeps for somebody."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        found: dict[str, Any] = client.run_on_scheduler(lambda dask_scheduler: dict.fromkeys(dask_scheduler.tasks))
        return found


def zygotes(pid: int) -> list[int]:
    """The zygotes that a worker has started and not ended."""
    return [child for child in children(pid) if "nbjudge.process.fork_server" in command_of(child)]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")


@pytest.mark.whole
def test_a_worker_with_another_torch_is_refused_by_name(course: Path, alone: Rows, tmp_path: Path) -> None:
    with cluster(tmp_path) as (address, start):
        start("--no-nanny", code=OTHER_TORCH)
        until(lambda: True if workers(address) == 1 else None)
        only_other = python(course, "-m", "nbjudge", "autograde", small.NAME, "--dask", address, status=2)
        assert "may grade: it has torch 9.9.9 instead of " in only_other
        start("--no-nanny")
        until(lambda: True if workers(address) == 2 else None)
        both = python(course, "-m", "nbjudge", "autograde", small.NAME, "--dask", address)
        assert "is not used: it has torch 9.9.9 instead of " in both
    assert rows(course) == alone


@pytest.mark.whole  # Dask tries for fifteen seconds
def test_no_scheduler_is_told_in_a_sentence(course: Path) -> None:
    said = python(course, "-m", "nbjudge", "autograde", small.NAME, "--dask", "tcp://127.0.0.1:1", status=2)
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in said
    assert "Traceback" not in said
