"""python -m benchmarks.autograde: a class graded by stock nbgrader and by this grader, in turn, as ratios.

Equal grades are asserted. Both sides are whole commands, start-up included; the marginal cost of a submission is the
difference of two class sizes, and what 10,000 submissions would take follows from it.
    --rounds N  --stock N  --ours N     how often, and how many students on each side
    --burn S                            seconds that each notebook computes for itself
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.answer_files import ASSIGNMENT

from .classes import Cost, cost, course, forget, run, scores, template

NBGRADER = ("-m", "nbgrader", "autograde", ASSIGNMENT, "--log-level=ERROR")
SIDES = {
    "stock nbgrader": NBGRADER,
    "stock, immediate shutdown": (*NBGRADER, "--Execute.shutdown_kernel=immediate"),
    "ours, 1 worker": ("-m", "grader", "autograde", ASSIGNMENT, "--workers", "1"),
    "ours, 2 workers": ("-m", "grader", "autograde", ASSIGNMENT, "--workers", "2"),
}
RECORDING = "ours, recording alone"  # every result is kept already: what the one writer takes
SIDES[RECORDING] = SIDES["ours, 2 workers"]
FEW = 2  # students of the small class that start-up is measured with


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--stock", type=int, default=6)
    parser.add_argument("--ours", type=int, default=60)
    parser.add_argument("--burn", type=float, default=0.0)
    wanted = parser.parse_args()
    found: dict[str, list[tuple[Cost, Cost]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        made = template(Path(folder) / "made")
        for number in range(wanted.rounds):
            grades = {}
            for name, command in SIDES.items():
                stock = name.startswith("stock")
                pair = []
                for students in (FEW, wanted.stock if stock else wanted.ours):
                    at = Path(folder) / f"{number} {name} {students}"
                    root = course(made, at, students, stock=stock, burn_s=wanted.burn)
                    if name == RECORDING:
                        run(root, *command)
                        forget(root)
                    pair.append(cost(root, students, command))
                found[name].append((pair[0], pair[1]))
                grades[name] = {who: rows for who, rows in scores(root).items() if who < f"s{wanted.stock:05}"}
            demand_equal(grades)
    report(found, wanted.burn)


def demand_equal(grades: Mapping[str, Mapping[str, Sequence[object]]]) -> None:
    """Ends the measurement, with the rows that differ, where the sides don't agree on a grade."""
    (base, expected), *others = grades.items()
    for name, found in others:
        for student, rows in expected.items():
            differ = [(ours, theirs) for ours, theirs in zip(found[student], rows, strict=True) if ours != theirs]
            if differ:
                sys.exit(f"{student}: {name} and {base} don't agree: {differ}")


def report(found: dict[str, list[tuple[Cost, Cost]]], burn_s: float) -> None:
    """The table, and the model."""
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, own compute of a notebook {burn_s:g} s; equal grades"
    )
    wall, cpu, start = (
        {name: statistics.median(part(*pair) for pair in pairs) for name, pairs in found.items()}
        for part in (marginal_wall, marginal_cpu, start_up)
    )
    print(f"{'':<28}{'s each':>8}{'CPU s each':>12}{'start s':>9}{'per minute':>12}{'wall':>8}{'CPU':>8}{'10,000':>10}")
    base = "stock nbgrader"
    for name in found:
        hours = (start[name] + 10_000 * wall[name]) / 3600
        print(
            f"{name:<28}{wall[name]:>8.2f}{cpu[name]:>12.2f}{start[name]:>9.1f}{60 / wall[name]:>12.0f}"
            f"{wall[base] / wall[name]:>7.1f}x{cpu[base] / cpu[name]:>7.1f}x{hours:>8.1f} h"
        )


def marginal_wall(few: Cost, many: Cost) -> float:
    """Wall seconds of one more submission."""
    return (many.wall_s - few.wall_s) / (many.students - few.students)


def marginal_cpu(few: Cost, many: Cost) -> float:
    """CPU seconds of one more submission."""
    return (many.cpu_s - few.cpu_s) / (many.students - few.students)


def start_up(few: Cost, many: Cost) -> float:
    """What the command takes without a submission."""
    return max(0.0, few.wall_s - few.students * marginal_wall(few, many))


if __name__ == "__main__":
    main()
