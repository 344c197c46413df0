"""What a process and all that it has started use together: rlimits count each process on its own.

Looked at from the zygote, a few times a second: a tree that grows faster than that is stopped a little late.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from nbjudge.model import Limits

PERIOD_S = 0.25
PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
RESIDENT = ("RssAnon", "RssShmem", "VmSwap")
SHARED_OUT = ("Pss_Anon", "Pss_Shmem", "SwapPss")  # a page that n processes share counts 1/n for each


def over(pid: int, limits: Limits, shared_bytes: int) -> str | None:
    """What this process and its descendants use too much of, as a clause; None while all is well.

    `shared_bytes`: of each process's memory, what a fork shares with the zygote.
    """
    tree = list(descendants(pid))
    if sum(map(_cpu_s, tree)) > limits.cpu_s:
        return f"its processes used more than {limits.cpu_s} s of CPU time together"
    quick = sum(max(0, _bytes(process, "status", RESIDENT) - shared_bytes) for process in tree)
    if quick > limits.memory_bytes and _exactly(tree) > limits.memory_bytes:
        return f"its processes used more than {limits.memory_bytes >> 20} MB of memory together"
    return None


def own_bytes() -> int:
    """What this process has in memory for itself: what its forks share with it."""
    return _bytes(os.getpid(), "status", RESIDENT)


def descendants(pid: int) -> Iterator[int]:
    """The process and all below it; those that end meanwhile are left out."""
    waiting = [pid]
    while waiting:
        process = waiting.pop()
        yield process
        for task in (PROC / str(process) / "task").glob("*/children"):
            with contextlib.suppress(OSError):
                waiting += map(int, task.read_text(encoding="utf-8").split())


def _exactly(tree: list[int]) -> int:
    """Their memory with shared pages counted once. Slower: the kernel walks every page."""
    return sum(_bytes(process, "smaps_rollup", SHARED_OUT) for process in tree)


def _bytes(pid: int, file: str, names: tuple[str, ...]) -> int:
    """The sum of some lines of a file of /proc; 0 for a process that has ended."""
    try:
        lines = (PROC / str(pid) / file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.partition(":")[0] in names)


def _cpu_s(pid: int) -> float:
    """User and system time, of the process and of those that it has waited for."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    return sum(map(int, text.rpartition(")")[2].split()[11:15])) / TICKS
