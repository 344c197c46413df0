"""Which cases stand for all in `make test`, by the times of a run: `python -m tools.standing build/all.xml`.

    SEEGRAD_TEST_ALL=1 make test PYTEST_ARGS="-o junit_duration_report=call --junitxml=build/all.xml"

Of each test function whose cases take longer than BUDGET_S, `standing.toml` beside the project's tests says how many
are run: as many as that time has room for, from all over; a test without cases is left out from ALONE_S on. A function
that the run has in part alone keeps its row, and so does a number that a person has set, which says `why`.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from nbjudge_tests.session import TABLE, standing_rows

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = ("grader/tests", "tests")
BUDGET_S = 2.0
"""What a test function's cases may take of `make test`, which has twelve minutes on two quiet cores."""
ALONE_S = 6.5
"""The same of a test without cases, which nothing else stands for."""
REMARK = "# What stands for all in `make test`, and how long all of it took. Written by `python -m tools.standing`.\n"

Rows = dict[str, dict[str, dict[str, Any]]]


def times(report: Path) -> dict[str, dict[str, list[float]]]:
    """Of each file and test function in a JUnit report: its cases' seconds."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314  # pytest's own, of this checkout
        if case.find("skipped") is not None:
            continue
        file = case.get("classname", "").replace(".", "/") + ".py"
        function = case.get("name", "").partition("[")[0]
        if function.startswith("test_") and (ROOT / file).exists():
            found[file][function].append(float(case.get("time", "0")))
    return found


def standing(cases_s: Sequence[float]) -> int:
    """How many of a function's cases stand for all: one at least, but of a long test without cases none.

    >>> standing([1.0] * 10), standing([6.0, 6.0]), standing([6.0]), standing([7.0])
    (2, 1, 1, 0)
    """
    if len(cases_s) == 1:
        return int(cases_s[0] <= ALONE_S)
    room = int(BUDGET_S * len(cases_s) / max(sum(cases_s), BUDGET_S))
    return max(room, 1)


def renewed(rows: Rows, seen: Mapping[str, Mapping[str, Sequence[float]]]) -> Rows:
    """A project's table after a run: what the run had in whole is written anew."""
    new: Rows = {file: dict(functions) for file, functions in rows.items()}
    for file, functions in seen.items():
        for function, cases_s in functions.items():
            old = rows.get(file, {}).get(function, {})
            if "why" in old or len(cases_s) < old.get("of", 0):
                continue
            new.setdefault(file, {}).pop(function, None)
            if (kept := standing(cases_s)) < len(cases_s):
                new[file][function] = {"cases": kept, "of": len(cases_s), "all_s": round(sum(cases_s), 1)}
    return new


def written(rows: Rows) -> str:
    """The table as TOML, in the order of files and functions."""
    blocks = [
        f'\n["{file}"]\n' + "".join(f"{name} = {_row(row)}\n" for name, row in sorted(functions.items()))
        for file, functions in sorted(rows.items())
        if functions
    ]
    return REMARK + "".join(blocks)


def _row(row: Mapping[str, Any]) -> str:
    pairs = (f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in row.items())
    return f"{{ {', '.join(pairs)} }}"


def main(argv: Sequence[str] | None = None, projects: Iterable[str] = PROJECTS) -> int:
    """Write each project's table anew from a JUnit report."""
    parser = argparse.ArgumentParser(prog="python -m tools.standing", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("report", type=Path, help="the JUnit report of a run in which all was tested")
    report = times(parser.parse_args(argv).report)
    for project in projects:
        table = ROOT / project / TABLE
        seen = {
            file.removeprefix(f"{project}/"): functions
            for file, functions in report.items()
            if file.startswith(f"{project}/")
        }
        rows = renewed(standing_rows(table) if table.exists() else {}, seen)
        table.write_text(written(rows), encoding="utf-8")
        print(f"{project}/{TABLE}: {sum(map(len, rows.values()))} functions of which some cases stand for all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
