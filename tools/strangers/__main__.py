"""Other people's courses through both graders: `python -m tools.strangers FOLDER… --work FOLDER`.

Each graded notebook below a FOLDER becomes an assignment. Its solution, its release and wrong answers made of the
solution are graded by stock `nbgrader autograde` and by ours; every question's points are compared, and what differs
is told with our sentence. What the stock grader has graded in the work folder isn't graded again.

Stock nbgrader runs all of it with your own rights: read a course before you compare it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.strangers.assignments import GradedNotebook, fresh, hand_in, notebooks, place
from tools.strangers.rows import PointsPair, rows, told

MOST_LINES = 12
ERROR = re.compile(r"^\[\w+ \| ERROR\] (.*(?:\n(?!\[).*)*)", re.MULTILINE)  # as nbgrader logs one
GRADE = Path(__file__).resolve().parent / "grade.py"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares; 0 where every row is equal."""
    parser = argparse.ArgumentParser(prog="python -m tools.strangers", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="somebody's course, with its solutions")
    parser.add_argument("--work", type=Path, default=Path("build/strangers"), help="where the two courses are made")
    parser.add_argument("--only", default="", metavar="PATTERN", help="only assignments whose name this is found in")
    parser.add_argument("--most", type=int, default=99, help="submissions an assignment, the first of those above")
    options = parser.parse_args(arguments)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # nbgrader calls `alembic`
    found: list[PointsPair] = []
    for folder in options.folders:
        work = (options.work / "-".join(folder.resolve().parts[-2:])).resolve()
        fresh(work)
        for one in notebooks(folder.resolve()):
            if re.search(options.only, one.name):
                _both(one, work, options.most)
        mine = [row for row in rows(work) if re.search(options.only, row.assignment)]
        found += mine
        print("\n".join([f"\n{folder}", *told(mine), _speed(work)]), flush=True)
        (work / "rows.json").write_text(
            json.dumps([[*_fields(row), row.cause, row.said] for row in mine if not row.equal], indent=1),
            encoding="utf-8",
        )
    if len(options.folders) > 1:
        print("\n".join(["\nall", *told(found)]))
    return 0 if found and all(row.equal for row in found) else 1


def _fields(row: PointsPair) -> list[object]:
    return [row.assignment, row.student, row.question, row.stock, row.ours]


def _both(one: GradedNotebook, work: Path, most: int) -> None:
    stock, ours = work / "stock", work / "ours"
    done = stock / "done" / f"{one.name}.json"
    if not done.is_file():
        place(one, work)
        _run(stock, "-m", "nbgrader", "update", f"source/{one.name}")  # marks as older versions wrote them
        refused = _run(stock, "-m", "nbgrader", "generate_assignment", one.name, "--force")
        if refused:
            print(f"{one.name}: nbgrader can't generate it: {refused}", flush=True)
            return
        hand_in(one.name, work, most)
        began = time.monotonic()
        _run(stock, "-m", "nbgrader", "autograde", one.name, "--create", "--force")
        done.parent.mkdir(exist_ok=True)
        done.write_text(json.dumps({"wall_s": time.monotonic() - began}), encoding="utf-8")
    if refused := _run(ours, "-m", "nbgrader", "generate_assignment", one.name, "--force"):
        print(f"{one.name}: ours says when it is generated:\n{refused}", flush=True)
    if failed := _run(ours, "-P", str(GRADE), one.name):
        print(f"{one.name}: ours can't grade it: {failed}", flush=True)
    print(f"{one.name} done", flush=True)


def _run(folder: Path, *command: str) -> str:
    """A command in a course; what it said where it failed: its errors, or else its last line."""
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        done = subprocess.run(  # noqa: S603 -- this project's own commands
            [sys.executable, *command],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        log.write(done.stdout)
    said = done.stdout.strip()
    errors = ERROR.findall(said) or said.splitlines()[-1:]
    return "\n".join("\n".join(errors).splitlines()[:MOST_LINES]) if done.returncode else ""


def _speed(work: Path) -> str:
    """Seconds of both, of the assignments that both have graded."""
    stock = {path.stem: json.loads(path.read_text())["wall_s"] for path in (work / "stock" / "done").glob("*.json")}
    ours = {path.stem: json.loads(path.read_text())["wall_s"] for path in (work / "ours" / "said").glob("*.json")}
    both = stock.keys() & ours.keys()
    if not both:
        return "nothing was graded by both"
    theirs, mine = (sum(times[name] for name in both) for times in (stock, ours))
    return f"{len(both)} assignments: stock {theirs:.0f} s, ours {mine:.0f} s, ratio {theirs / mine:.1f}"


if __name__ == "__main__":
    sys.exit(main())
