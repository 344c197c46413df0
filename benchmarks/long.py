"""Deep graphs and long runs: is the time for a Node and for a step the same however many there were, and the memory?

`python -m benchmarks.long [deep] [steps]` prints a table of each. Each side runs in a process of its own, with the
stack that the system gives it: `python -m benchmarks.long child KIND SIDE NUMBER…`.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import nn

from benchmarks.memory import AROUND, peak_bytes
from tools.words.marks import markdown_table

LEVELS = (10_000, 30_000, 100_000)
STEPS = (1_000, 5_000, 10_000)
RECORDED = "record() around the loop"
MEBIBYTE = 2**20
Row = dict[str, float]


def deep(side: str, levels: Sequence[int]) -> Iterator[Row]:
    """A chain of so many Nodes, forward and backward; then the only reference to it goes."""
    around, _ = AROUND[side]
    for count in levels:
        gc.collect()
        with around():
            began = time.process_time()
            y = torch.ones(1, requires_grad=True)
            for _ in range(count):
                y = y * 1.0
            y.sum().backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            ran = time.process_time()
            del y
            freed = time.process_time()
        yield {"µs per op": 1e6 * (ran - began) / count, "ms to free": 1e3 * (freed - ran)}


def steps(side: str, marks: Sequence[int]) -> Iterator[Row]:
    """A small model trained with Adam: between two marks the time of a step, at each what the process holds."""
    around, _ = AROUND[side]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimiser, before, began = torch.optim.Adam(model.parameters()), 0, time.process_time()
    with around():
        for step in range(1, max(marks) + 1):
            optimiser.zero_grad()
            loss = (model(torch.randn(4, 8)) ** 2).mean()
            loss.backward()
            optimiser.step()
            if step in marks:
                now = time.process_time()
                yield {"ms per step": 1e3 * (now - began) / (step - before), "MiB": held_bytes() / MEBIBYTE}
                before, began = step, now


def held_bytes() -> int:
    """What this process holds now, where the system tells; else the most it ever held."""
    told = Path("/proc/self/status")
    if not told.exists():
        return peak_bytes()
    (line,) = (line for line in told.read_text().splitlines() if line.startswith("VmRSS"))
    return 1024 * int(line.split()[1])


KINDS: dict[str, tuple[Callable[[str, Sequence[int]], Iterator[Row]], Sequence[int]]] = {
    "deep": (deep, LEVELS),
    "steps": (steps, STEPS),
}


def table(kind: str, numbers: Sequence[int] | None = None) -> str:
    """What a kind costs at each number, plain and recorded."""
    numbers = numbers or KINDS[kind][1]
    found = {side: in_a_child(kind, side, numbers) for side in ("plain", RECORDED)}
    rows = [(side, what, *(f"{row[what]:,.1f}" for row in each)) for side, each in found.items() for what in each[0]]
    return markdown_table(("side", kind, *(f"{number:,}" for number in numbers)), rows)


def in_a_child(kind: str, side: str, numbers: Sequence[int]) -> list[Row]:
    """One side's rows."""
    command = [sys.executable, "-m", "benchmarks.long", "child", kind, side, *map(str, numbers)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603  # our own module
    rows: list[Row] = json.loads(done.stdout)
    return rows


def main(arguments: Sequence[str]) -> None:
    """Print the tables, or as a child one side's rows."""
    if arguments[:1] == ["child"]:
        torch.set_num_threads(1)
        kind, side, *numbers = arguments[1:]
        print(json.dumps(list(KINDS[kind][0](side, list(map(int, numbers))))))
        return
    for kind in arguments or KINDS:
        print(table(kind), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
