"""What texts that are made to keep a parser busy cost a class: the same students with ten of them and without, in turn.

    python -m benchmarks.grading.bombs [--students N]

Both classes are graded and get their feedback; the figures are ratios of one run. A last line counts whom the summary
names.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import cycle
from pathlib import Path
from typing import Any

import nbformat

from benchmarks.grading.classes import Cost, cost, course, run, template
from benchmarks.record import Table, as_text
from nbjudge_tests.classroom import bombs
from tests.course.answer_files import ASSIGNMENT

BOMBS = 10
COMMANDS = {
    "nbjudge autograde": ("-m", "nbjudge", "autograde", ASSIGNMENT),
    "nbgrader generate_feedback": ("-m", "nbgrader", "generate_feedback", ASSIGNMENT, "--log-level=ERROR"),
}
SHOW = "from IPython.display import display\ndisplay({{{kind!r}: {text!r}}}, raw=True)"


def cells() -> list[Any]:
    """One bomb each: displayed, printed, written as an answer, or as code."""
    shown = [SHOW.format(kind=kind, text=text) for kind, text in bombs.OUTPUTS.values()]
    small = "for n in range(100_000): print(n, end='', flush=True)"
    code = [*shown, f"print({bombs.COLOURS!r})", small, *(f"'''{text}'''" for text in bombs.CODE.values())]
    written = [nbformat.v4.new_markdown_cell(text) for text in bombs.CELLS.values()]  # type: ignore[no-untyped-call]  # nbformat has no types
    run_here = [nbformat.v4.new_code_cell(source) for source in code]  # type: ignore[no-untyped-call]  # the same
    return [cell for pair in zip(run_here, cycle(written), strict=False) for cell in pair]


def armed(root: Path) -> None:
    """Give BOMBS students of the class their part of the bombs, at the end of the notebook."""
    every = cells()
    folders = sorted((root / "submitted").iterdir())[:BOMBS]
    for number, folder in enumerate(folders):
        path = folder / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # nbformat has no types
        notebook.cells += every[number::BOMBS]
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]  # the same


def row(name: str, without: Cost, with_them: Cost) -> tuple[str, ...]:
    """One command's costs and their ratios."""
    ratios = f"×{with_them.wall_s / without.wall_s:.2f}", f"×{with_them.cpu_s / without.cpu_s:.2f}"
    return (name, f"{without.wall_s:.1f} s", f"{with_them.wall_s:.1f} s", *ratios)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.grading.bombs", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--students", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = template(Path(folder) / "made")
        plain = course(made, Path(folder) / "plain", options.students)
        hostile = course(made, Path(folder) / "hostile", options.students)
        armed(hostile)
        rows = []
        for name, command in COMMANDS.items():
            rows.append(row(name, *(cost(root, options.students, command) for root in (plain, hostile))))
            print("  ".join(rows[-1]), flush=True)
        head = ("", "without", f"with {BOMBS}", "time", "CPU time")
        print(
            as_text(Table(f"A class of {options.students}, and the same with {BOMBS} bombs in it", head, tuple(rows)))
        )
        summary = run(hostile, "-m", "nbjudge", "autograde", ASSIGNMENT)
        named = [line.split()[0] for line in summary.splitlines() if "isn't shown" in line]
        print(f"\nThe summary names {len(named)}: {', '.join(named)}")


if __name__ == "__main__":
    main()
