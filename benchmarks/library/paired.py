"""Measure sides against the plain run: they alternate, round by round, and the median of the ratios counts.

Times are the process's own CPU time: other work on the machine takes nothing away from it.
"""

from __future__ import annotations

import gc
import signal
import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import torch

from benchmarks.library.programs import NotInstalled, Workload
from benchmarks.library.sides import PLAIN, Side

PATIENCE_S = 60
"""A side that takes longer than that for one run, in CPU time, is not asked again."""
TICK_S = 1e-6
"""A run that the clock saw nothing of took at most that, about."""
SLOW, SLOW_ROUNDS = 4.0, 1
"""A side slower than that ratio is clear after so many rounds."""


class OutOfPatience(BaseException):
    """A run took longer than PATIENCE_S. No Exception: a side that catches everything must not swallow it."""


@dataclass(slots=True)
class Timing:
    """What one side did with one Workload."""

    program: str
    side: Side
    seconds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    stopped: str = ""
    """Why there are no figures: not installed, an error, out of patience."""
    same_gradients: bool = True

    @property
    def ratio(self) -> float | None:
        """Median of (side / plain of the same round)."""
        return statistics.median(self.ratios) if self.ratios and not self.stopped else None

    @property
    def done(self) -> bool:
        """True when it isn't asked again."""
        return bool(self.stopped) or (len(self.ratios) >= SLOW_ROUNDS and (self.ratio or 0) > SLOW)

    @property
    def words(self) -> str:
        """The ratio, or why there is none."""
        if self.ratio is None:
            return self.stopped
        return f"×{self.ratio:.2f}" + ("" if self.same_gradients else ", gradients not equal to the bit")


def measure(program: Workload, sides: Sequence[Side], rounds: int) -> list[Timing]:
    """Run every side once a round, in turn, after one round that nobody counts."""
    found = [Timing(program.name, side) for side in sides]
    program.clear()
    program.run()
    expected = program.gradients()
    for counted in (False, *(True,) * rounds):
        running = [each for each in found if not each.done]
        for each in running:
            once(program, each, expected, counted=counted)
        if counted:
            compare(running)
    return found


def once(program: Workload, measured: Timing, expected: Sequence[torch.Tensor], *, counted: bool) -> None:
    """Run one side once and note its time; whatever stops it is its result."""
    program.clear()
    gc.collect()
    start = time.process_time()
    try:
        with warnings.catch_warnings(action="ignore"), patience(PATIENCE_S):  # anomaly mode warns that it is slow
            measured.side.run(program)
    except OutOfPatience:
        measured.stopped = f"more than {PATIENCE_S} s"
    except NotInstalled as missing:
        measured.stopped = f"not installed: {missing}"
    except Exception as error:
        if measured.side.ours or measured.side is PLAIN:
            raise
        measured.stopped = f"{type(error).__name__}: {first_words(error)}"
    else:
        if counted:
            measured.seconds.append(max(time.process_time() - start, TICK_S))
        check_gradients(program, measured, expected)


def first_words(error: Exception, length: int = 60) -> str:
    """The start of an error's first line."""
    line = (str(error).splitlines() or [""])[0]
    return line if len(line) <= length else line[:length] + "…"


def check_gradients(program: Workload, measured: Timing, expected: Sequence[torch.Tensor]) -> None:
    """The gradients after a run. Ours must be torch's to the bit; of a peer it is noted."""
    found = program.gradients()
    if measured.side.says and not found:
        return
    same = len(found) == len(expected) and all(map(torch.equal, expected, found))
    assert same or not measured.side.ours, f"{measured.side.name} changed a gradient of {program.name}"
    measured.same_gradients &= same


def compare(found: Sequence[Timing]) -> None:
    """Add this round's ratios."""
    reference = next(each for each in found if each.side is PLAIN)
    for each in found:
        if not each.stopped:
            each.ratios.append(each.seconds[-1] / reference.seconds[-1])


@contextmanager
def patience(seconds: int) -> Iterator[None]:
    """Stop what runs inside after some seconds of CPU time, at its next line of Python."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise OutOfPatience

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
