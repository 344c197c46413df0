"""What grading a class costs: stock nbgrader, otter-grader and this grader in turn, as ratios; equal grades asserted.

    python -m benchmarks.autograde [--rounds N] [--markdown docs/performance.md]

Each side is a whole command on a class of FEW and on a larger one: what one more submission takes is the difference,
start-up is what is left. `--stock N`, `--ours N`: students in the larger class. `--burn S …`: a second measurement, of
notebooks that compute for S seconds themselves.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.grading import otter
from benchmarks.grading.classes import Cost, cost, course, forget, judging_cpu_s, passed, run, scores, template
from benchmarks.library.own_memory import measured as own_memory
from benchmarks.record import Table, as_markdown, as_text, machine
from tests.course.answer_files import ASSIGNMENT, ROOT
from tools.words.marks import write_between

NBGRADER = ("-m", "nbgrader", "autograde", ASSIGNMENT, "--log-level=ERROR")
GRADER = ("-m", "nbjudge", "autograde", ASSIGNMENT, "--workers")
STOCK, ONE, TWO, OTTER = "nbgrader autograde", "ours, 1 worker", "ours, 2 workers", "otter-grader, no Docker"
RECORDING = "ours, recording alone"
SIDES: Mapping[str, tuple[str, ...]] = {
    STOCK: NBGRADER,
    "the same, shutdown_kernel=immediate": (*NBGRADER, "--Execute.shutdown_kernel=immediate"),
    OTTER: ("-m", "benchmarks.grading.otter"),
    ONE: (*GRADER, "1"),
    TWO: (*GRADER, "2"),
    RECORDING: (*GRADER, "2"),  # every result is kept already: what the one writer takes
}
MARK = "grading"
FEW = 2  # students of the small class that start-up is measured with
MANY = 10_000
BURNT = (2, 6)  # students of a class that computes for itself: on the stock side, on ours


@dataclass(frozen=True)
class Sizes:
    """How many students the larger class has."""

    stock: int
    ours: int

    def of(self, side: str) -> int:
        """On one side."""
        return self.ours if side.startswith("ours") else self.stock


@dataclass(frozen=True)
class Marginal:
    """What one more submission takes, and what a command takes without any; medians over the rounds."""

    wall_s: float
    cpu_s: float
    start_s: float


Pairs = dict[str, list[tuple[Cost, Cost]]]  # side → of each round, the small class and the larger one


def one_round(made: Path, folder: Path, sides: Sequence[str], sizes: Sizes, few: int, burn_s: float) -> Pairs:
    """Every side once, in turn; ends the measurement where grades differ."""
    found: Pairs = defaultdict(list)
    grades = {}
    for side in sides:
        classes = [course(made, folder / f"{side} {n}", n, stock=side not in (ONE, TWO, RECORDING), burn_s=burn_s)
                   for n in (few, sizes.of(side))]  # fmt: skip
        pair = [graded(side, root, n) for root, n in zip(classes, (few, sizes.of(side)), strict=True)]
        found[side].append((pair[0], pair[1]))
        print(f"{side}: {pair[1].students} students in {pair[1].wall_s:.0f} s, {pair[1].cpu_s:.0f} CPU s", flush=True)
        grades[side] = otter.passed(classes[1]) if side == OTTER else scores(classes[1])
        if side == STOCK:
            grades["passed"] = passed(classes[1])
    demand_equal(grades, grades.pop("passed"))
    return found


def graded(side: str, root: Path, students: int) -> Cost:
    """What a side's command takes on a class."""
    command, where = SIDES[side], root
    if side == OTTER:
        otter.prepare(root)
        command, where = (*command, str(root)), ROOT
    if side == RECORDING:
        run(root, *command)
        forget(root)
    took = cost(where, students, command)
    return replace(took, judging_cpu_s=judging_cpu_s(root)) if side in (ONE, TWO) else took


def demand_equal(grades: Mapping[str, Mapping[str, object]], full: Mapping[str, object]) -> None:
    """Ends the measurement, with what differs, where a side doesn't agree with stock nbgrader on a student it has.

    Of otter, which knows no part of a question's points, the questions that got everything are compared.
    """
    for side, found in grades.items():
        expected = full if side == OTTER else grades[STOCK]
        for student in expected:
            if found[student] != expected[student]:
                sys.exit(f"{student}: {side} says {found[student]}, {STOCK} {expected[student]}")


def marginal(pairs: Sequence[tuple[Cost, Cost]]) -> Marginal:
    """The medians of the rounds."""

    def median(of: Callable[[Cost, Cost], float]) -> float:
        return statistics.median(of(few, many) for few, many in pairs)

    wall_s = median(lambda few, many: (many.wall_s - few.wall_s) / (many.students - few.students))
    cpu_s = median(lambda few, many: (many.cpu_s - few.cpu_s) / (many.students - few.students))
    return Marginal(wall_s, cpu_s, max(0.0, median(lambda few, _: few.wall_s - few.students * wall_s)))


def comparison(pairs: Pairs, sizes: Sizes) -> Table:
    """One more submission on each side, and 10,000."""
    found = {side: marginal(of) for side, of in pairs.items() if side != RECORDING}
    base = found[STOCK]
    rows = tuple(
        (
            side,
            f"{each.wall_s:.2f} s",
            f"{each.cpu_s:.2f} s",
            f"{each.start_s:.0f} s",
            f"{60 / each.wall_s:.0f}",
            f"×{base.wall_s / each.wall_s:.1f}",
            f"×{base.cpu_s / each.cpu_s:.1f}",
            f"{(each.start_s + MANY * each.wall_s) / 3600:.1f} h",
        )
        for side, each in found.items()
    )
    head = ("", "one more takes", "of CPU", "start", "a minute", "speed", "per CPU second", f"{MANY:,}")
    return Table(f"{ASSIGNMENT}: classes of {sizes.stock} (ours: {sizes.ours}), {len(pairs[STOCK])} rounds", head, rows)


def breakdown(pairs: Pairs) -> Table:
    """Where our own CPU time goes."""
    whole, recording = marginal(pairs[ONE]).cpu_s, marginal(pairs[RECORDING]).cpu_s
    judging = statistics.median(many.judging_cpu_s for _, many in pairs[ONE])
    parts = {
        "the student's process and the judge: fork, notebook, tests, frames": judging,
        "recording: folder read, hash, graded folder, gradebook's transaction": recording,
        "the rest: notebook restored and checked, forks asked for, outputs made": max(0.0, whole - recording - judging),
    }
    rows = tuple((name, f"{1000 * cpu_s:.0f} ms", f"{100 * cpu_s / whole:.0f} %") for name, cpu_s in parts.items())
    return Table("Where our CPU time goes, one more submission", ("", "CPU", ""), rows)


def burning(made: Path, folder: Path, seconds: Sequence[float]) -> Table:
    """Notebooks that compute for themselves: the gain shrinks towards that of the second core."""
    rows = []
    for burn_s in seconds:
        sizes = Sizes(*BURNT)
        pairs = one_round(made, folder / f"burn {burn_s:g}", (STOCK, TWO), sizes, 1, burn_s)
        stock, ours = marginal(pairs[STOCK]), marginal(pairs[TWO])
        ratios = f"×{stock.wall_s / ours.wall_s:.1f}", f"×{stock.cpu_s / ours.cpu_s:.1f}"
        rows.append((f"{burn_s:g} s", f"{stock.wall_s:.1f} s", f"{ours.wall_s:.1f} s", *ratios))
    head = ("own compute", "nbgrader autograde", TWO, "speed", "per CPU second")
    return Table("One more submission whose notebook computes for itself", head, tuple(rows))


def memory_table() -> Table:
    """What a running submission has of its own."""
    rows = tuple((part, f"{size_bytes / 2**20:,.0f} MiB") for part, size_bytes in own_memory().items())
    return Table("Memory while a submission runs", ("", "most at once"), rows)


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """All that was asked for."""
    sides = [side for side in SIDES if side != OTTER or otter.is_there()]
    sizes = Sizes(options.stock, options.ours)
    with tempfile.TemporaryDirectory() as folder:
        made = template(Path(folder) / "made")
        pairs: Pairs = defaultdict(list)
        for number in range(options.rounds):
            for side, of in one_round(made, Path(folder) / str(number), sides, sizes, FEW, 0.0).items():
                pairs[side] += of
        yield comparison(pairs, sizes)
        yield breakdown(pairs)
        yield memory_table()
        if options.burn:
            yield burning(made, Path(folder), options.burn)


def main() -> None:
    """Measures, prints, and writes the page where one is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.autograde", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stock", type=int, default=6)
    parser.add_argument("--ours", type=int, default=200)
    parser.add_argument("--burn", type=float, nargs="*", default=[1.0, 5.0])
    parser.add_argument("--markdown", type=Path, metavar="FILE", help=f"write between the page's marks <!-- {MARK} -->")
    options = parser.parse_args()
    found = []
    for table in tables(options):
        found.append(table)
        print(f"\n{as_text(table)}", flush=True)
    where = f"{machine()}; load {os.getloadavg()[0]:.1f} when it ended, so that only the ratios say something"
    print(f"\n{where}")
    if options.markdown is not None:
        write_between(options.markdown, "\n\n".join([f"{where}.", *map(as_markdown, found)]), MARK)


if __name__ == "__main__":
    main()
