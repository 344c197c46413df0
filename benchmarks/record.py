"""What recording costs, against the plain run and against its peers.

    python -m benchmarks.record [--rounds N] [--only WORD] [--markdown docs/performance.md]

Each round runs every side once, in turn, in one process; a figure is the median over the rounds of (side / plain).
A peer that isn't installed (`pip install -e '.[bench]'`) is named as such.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks import memory
from benchmarks.library.paired import Timing, measure
from benchmarks.library.programs import NotInstalled, Workload, chain, encoder, gpt2, lstm
from benchmarks.library.sides import PLAIN, SIDES, Side
from tools.words.marks import markdown_table, write_between

ROUNDS = 7
SCALES = (10_000, 30_000, 100_000)
MARK = "figures"

PROGRAMS: tuple[tuple[str, Callable[[], Workload], int], ...] = (
    ("encoder small", lambda: encoder(2, 16), ROUNDS),
    ("encoder large", lambda: encoder(8, 128), ROUNDS),
    ("gpt2", lambda: gpt2(32), 5),
    ("lstm", lambda: lstm(1000), 5),
    ("chain", lambda: chain(100_000), 3),
)
"""A word to choose it by, the Workload, and its rounds."""


@dataclass(frozen=True, slots=True)
class Table:
    """A title and what stands under it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def ratios(
    programs: Sequence[tuple[str, Callable[[], Workload], int]], sides: Sequence[Side], rounds: int | None
) -> Iterator[Table]:
    """One table a program."""
    for _, make, usual in programs:
        try:
            program = make()
        except NotInstalled as missing:
            yield Table(f"not installed: {missing}", (), ())
            continue
        yield ratio_table(measure(program, sides, rounds or usual))


def ratio_table(found: Sequence[Timing]) -> Table:
    """Ratios, and the plain run in seconds."""
    rows = [(each.side.name, each.words, "" if each.stopped else each.side.says) for each in found]
    plain = sorted(found[0].seconds)[len(found[0].seconds) // 2]
    title = f"{found[0].program}: plain forward and backward {milliseconds(plain)}, {len(found[0].seconds)} rounds"
    return Table(title, ("side", "time", ""), tuple(rows))


def milliseconds(seconds: float) -> str:
    """`12.3 ms`.

    >>> milliseconds(0.0123), milliseconds(2)
    ('12.3 ms', '2,000 ms')
    """
    return f"{1e3 * seconds:,.1f} ms" if seconds < 0.1 else f"{1e3 * seconds:,.0f} ms"


def linear(scales: Sequence[int], rounds: int = 3) -> Table:
    """Time per op of a chain, as it grows: flat means linear."""
    sides = [side for side in SIDES if side is PLAIN or (side.ours and "=" not in side.name)]
    columns = [measure(chain(ops), sides, rounds) for ops in scales]
    rows = tuple(
        (
            side.name,
            *(
                each.stopped or f"{1e6 * statistics.median(each.seconds) / ops:.1f} µs"
                for each, ops in zip(line, scales, strict=True)
            ),
        )
        for side, line in zip(sides, zip(*columns, strict=True), strict=True)
    )
    return Table("Time per op of a chain", ("side", *(f"{ops:,} ops" for ops in scales)), rows)


def memory_table(found: dict[str, list[float]], steps: Sequence[int]) -> Table:
    """Peak memory, and what it is above plain."""
    plain = found["plain"]
    rows = tuple(
        (
            side,
            *(
                f"{each / 2**20:,.0f} MiB ({100 * (each / base - 1):+.1f} %)"
                for each, base in zip(peaks, plain, strict=True)
            ),
        )
        for side, peaks in found.items()
    )
    title = "Peak memory of the process over a training loop (2-layer encoder d=128, 4×32 tokens, Adam)"
    return Table(title, ("side", *(f"after {count} steps" for count in steps)), rows)


def machine() -> str:
    """The machine in words."""
    today = datetime.datetime.now(datetime.UTC)
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {platform.system()}, one torch thread, "
        f"Python {platform.python_version()}, torch {torch.__version__}, {today:%Y-%m-%d}"
    )


def as_text(table: Table) -> str:
    """A table for a terminal."""
    widths = [max(map(len, column)) for column in zip(table.head, *table.rows, strict=True)] if table.head else []
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table.rows]
    return "\n".join([table.title, *(f"  {line.rstrip()}" for line in lines)])


def as_markdown(table: Table) -> str:
    """A table for a page."""
    return f"### {table.title}\n\n{markdown_table(table.head, table.rows)}" if table.head else f"### {table.title}"


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """All that was asked for, one after the other."""
    sides = [side for side in SIDES if side is PLAIN or side.name.startswith(options.sides)]
    yield from ratios([each for each in PROGRAMS if options.only in each[0]], sides, options.rounds)
    if options.only in "linear":
        yield linear(SCALES, options.rounds or 3)
    if options.only in "memory":
        yield memory_table(memory.measure(memory.STEPS, options.rounds or 3), memory.STEPS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the page where one is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, help="rounds of each program, instead of its usual number")
    parser.add_argument("--only", default="", metavar="WORD", help="encoder, gpt2, lstm, chain, linear or memory")
    parser.add_argument("--sides", default="", metavar="WORD", help="only the sides whose names begin so, e.g. record")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help=f"write between the page's marks <!-- {MARK} -->")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(machine(), flush=True)
    found = []
    for table in tables(options):
        found.append(table)
        print(f"\n{as_text(table)}", flush=True)
    if options.markdown is not None:
        text = "\n\n".join([f"{machine()}.", *map(as_markdown, found)])
        write_between(options.markdown, text, MARK)
    return 0


if __name__ == "__main__":
    sys.exit(main())
