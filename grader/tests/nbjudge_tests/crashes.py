"""Killing a class's grading at random moments: a few for `test_crash`, a hundred for `benchmarks/crash.py`.

A run of the command is watched from outside, as an operator would see it: after a random while one of its processes
is ended with SIGKILL, or its connections to the database are cut. When the command has ended it is started again.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from nbjudge_tests.classroom.commands import ENVIRONMENT

T = TypeVar("T")

SOON_S = 2.5  # a kill comes at most this long after what it waits for
RUN_S = 300.0
START_S = 120.0  # what a machine that is busy needs to start a program
KILLED = ("zygote has ended", "the same command goes on from here")  # what a run says that couldn't go on


@dataclass(slots=True)
class Siege:
    """What was killed, and how the runs ended."""

    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    statuses: Counter[int] = field(default_factory=Counter)


Cut = Callable[[], None]  # cuts the connections to the database


def besiege(
    command: Sequence[str],
    root: Path,
    kills: int,
    seed: int,
    *,
    temporary: Path,
    cut: Cut | None = None,
    victims: Sequence[str] = (),
) -> Siege:
    """Runs the command in `root` until `kills` processes were killed and it has then ended by itself with status 0.

    A command that comes to its end before that is started again with `--force`, so that there is work to disturb.
    `temporary` is the runs' own folder for what is temporary: other graders may be at work on this machine.
    """
    dice, siege = random.Random(seed), Siege()  # noqa: S311 -- which process to kill is no secret
    kinds = list(victims or ("coordinator", "zygote", "first process", "judge"))
    while True:
        forced = ["--force"] if siege.starts and siege.statuses[0] and siege.kills.total() < kills else []
        running = subprocess.Popen(
            [*command, *forced],
            cwd=root,
            env=ENVIRONMENT | {"TMPDIR": str(temporary)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        siege.starts += 1
        ended_by_us = _disturb(running, siege, kills, kinds, dice, cut)
        assert running.stderr is not None
        said = running.stderr.read()
        running.stderr.close()
        status = running.wait()
        siege.statuses[status] += 1
        assert ended_by_us or status in (0, 1) or any(reason in said for reason in KILLED), said
        if siege.kills.total() >= kills and status == 0:
            return siege
        assert siege.starts < 20 * max(kills, 1), said


def _disturb(
    running: subprocess.Popen[str], siege: Siege, kills: int, kinds: list[str], dice: random.Random, cut: Cut | None
) -> bool:
    """Kills one thing after the other while the command runs; True when it was the command itself."""
    deadline = time.monotonic() + RUN_S
    while running.poll() is None and siege.kills.total() < kills and time.monotonic() < deadline:
        kind = dice.choice([*kinds, *(["connection"] if cut else [])])
        moment = time.monotonic() + dice.uniform(0.0, SOON_S)
        while running.poll() is None and time.monotonic() < deadline:
            if time.monotonic() >= moment and _kill(kind, running.pid, cut):
                siege.kills[kind] += 1
                if kind == "coordinator":
                    return True
                break
            time.sleep(0.01)
    return False


def _kill(kind: str, coordinator: int, cut: Cut | None) -> bool:
    """Kill one such process, if there is one now."""
    if kind == "connection":
        assert cut is not None
        cut()
        return True
    there = list(_found(kind, coordinator))
    for pid in there[:1]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(there)


def _found(kind: str, coordinator: int) -> Iterator[int]:
    """coordinator → zygote → first process of its namespaces → students and judges (an even number, in turn)."""
    if kind == "coordinator":
        yield coordinator
        return
    zygotes = children(coordinator)
    firsts = [first for zygote in zygotes for first in children(zygote)]
    if kind == "zygote":
        yield from zygotes
    elif kind == "first process":
        yield from firsts
    else:
        yield from (child for first in firsts for child in sorted(children(first))[1::2])


def children(pid: int) -> list[int]:
    """The processes that a process has started, whichever thread did it."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text(encoding="utf-8").split())
    return found


def until(found: Callable[[], T | None]) -> T:
    """What it finds, as soon as it finds something."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if (value := found()) is not None:
            return value
        time.sleep(0.1)
    raise AssertionError("not in time")


def workers(address: str) -> int:
    """How many have joined."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        return len(client.scheduler_info(n_workers=-1)["workers"])


def grading(name: str, *options: str) -> list[str]:
    """The command that grades."""
    return [sys.executable, "-m", "nbjudge", "autograde", name, "--workers", "2", *options]
