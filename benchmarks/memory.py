"""What recording holds: peak memory over a training loop, each side in a process of its own.

`python -m benchmarks.memory SIDE STEPS…` is the child: it trains, and prints its peak at each number of steps.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

import seegrad

STEPS = (50, 100, 200, 400)
Context = Callable[[], AbstractContextManager[object]]

AROUND: dict[str, tuple[Context, Context]] = {
    "plain": (nullcontext, nullcontext),
    "record() around the loop": (seegrad.record, nullcontext),
    "record() around each step": (nullcontext, seegrad.record),
    "detect_anomaly() around the loop": (lambda: torch.autograd.set_detect_anomaly(True), nullcontext),
}
"""What is around the whole loop, and around each step."""


def peak_bytes() -> int:
    """The most memory this process ever had, as the system counts it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def train(side: str, steps: Sequence[int], width: int = 128) -> list[int]:
    """Train a 2-layer encoder with Adam; the peak in bytes once each number of steps is done."""
    around_loop, around_step = AROUND[side]
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(width, 8))
    optimiser = torch.optim.Adam(model.parameters())
    peaks = []
    with around_loop():
        for step in range(1, max(steps) + 1):
            with around_step():
                x = torch.randn(4, 32, width)
                optimiser.zero_grad()
                loss = nn.functional.cross_entropy(model(x).flatten(0, 1), torch.randint(0, 8, (128,)))
                loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
                optimiser.step()
            if step in steps:
                peaks.append(peak_bytes())
    return peaks


def measure(steps: Sequence[int], rounds: int) -> dict[str, list[float]]:
    """Median peak in bytes of each side at each number of steps; the sides alternate."""
    found: dict[str, list[list[int]]] = {side: [] for side in AROUND}
    for _ in range(rounds):
        for side, peaks in found.items():
            peaks.append(in_a_child(side, steps))
    return {side: [statistics.median(each) for each in zip(*peaks, strict=True)] for side, peaks in found.items()}


def in_a_child(side: str, steps: Sequence[int]) -> list[int]:
    """One side's peaks, in bytes."""
    command = [sys.executable, "-m", "benchmarks.memory", side, *map(str, steps)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603  # our own module
    peaks: list[int] = json.loads(done.stdout)
    return peaks


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(train(sys.argv[1], [int(each) for each in sys.argv[2:]])))
