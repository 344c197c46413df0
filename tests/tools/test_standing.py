"""The tables of what stands for all: what they name is there, and a run's times become their rows."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from nbjudge_tests.session import TABLE, standing_rows
from tools.standing import PROJECTS, ROOT, Rows, renewed, times, written

CASES = [
    (project, file, function, row)
    for project in PROJECTS
    for file, functions in standing_rows(ROOT / project / TABLE).items()
    for function, row in functions.items()
]


@pytest.mark.parametrize("project", PROJECTS)
def test_what_a_table_names_is_there(project: str) -> None:
    missing = []
    for file, functions in standing_rows(ROOT / project / TABLE).items():
        path = ROOT / project / file
        tree = ast.parse(path.read_text(encoding="utf-8")) if path.exists() else ast.Module([], [])
        there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        missing += [f"{file}::{function}" for function in functions if function not in there]
    assert missing == []


def test_each_row_leaves_something_out_or_says_why() -> None:
    assert [row for *_, row in CASES if row["cases"] >= row["of"] and "why" not in row] == []


def test_times_of_a_run_become_rows(tmp_path: Path) -> None:
    here = "tests.tools.test_standing"
    cases = [f'<testcase classname="{here}" name="test_many[{n}]" time="1.0"/>' for n in range(10)]
    cases += [f'<testcase classname="{here}" name="test_long" time="11"/>']
    cases += [f'<testcase classname="{here}" name="test_short" time="1"/>']
    cases += [f'<testcase classname="{here}" name="test_long" time="9"><skipped/></testcase>']
    report = tmp_path / "run.xml"
    report.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    seen = times(report)["tests/tools/test_standing.py"]
    old: Rows = {
        "a.py": {
            "test_many": {"cases": 1, "of": 99, "all_s": 99.0},
            "test_long": {"cases": 1, "of": 1, "all_s": 8.0, "why": "alone in it"},
            "test_gone_short": {"cases": 0, "of": 1, "all_s": 8.0},
        }
    }
    partly = renewed(old, {"a.py": {**seen, "test_gone_short": [0.5]}})
    assert tomllib.loads(written(partly)) == partly
    assert partly == {"a.py": {name: old["a.py"][name] for name in ("test_many", "test_long")}}
    assert renewed({}, {"a.py": seen}) == {
        "a.py": {
            "test_many": {"cases": 2, "of": 10, "all_s": 10.0},
            "test_long": {"cases": 0, "of": 1, "all_s": 11.0},
        }
    }
