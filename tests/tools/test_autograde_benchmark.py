"""The grader's benchmark: what it makes of what it measured, and that unequal grades end it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks import autograde
from benchmarks.autograde import ONE, OTTER, RECORDING, STOCK, Sizes
from benchmarks.grading import otter
from benchmarks.grading.classes import Cost
from benchmarks.record import as_markdown
from tools.words.marks import between_marks

FEW = Cost(wall_s=20, cpu_s=14, students=2)
PAIRS = {
    STOCK: [(FEW, Cost(wall_s=40, cpu_s=34, students=6))],
    ONE: [(FEW, Cost(wall_s=60, cpu_s=54, students=202, judging_cpu_s=0.15))],
    RECORDING: [(FEW, Cost(wall_s=30, cpu_s=18, students=202))],
}


def test_one_more_submission_is_the_difference_of_two_classes_and_the_rest_is_start_up() -> None:
    found = autograde.marginal(PAIRS[STOCK])
    assert (found.wall_s, found.cpu_s, found.start_s) == (5, 5, 10)
    table = autograde.comparison(PAIRS, Sizes(stock=6, ours=202))
    assert table.rows[0] == (STOCK, "5.00 s", "5.00 s", "10 s", "12", "×1.0", "×1.0", "13.9 h")
    assert table.rows[1] == (ONE, "0.20 s", "0.20 s", "20 s", "300", "×25.0", "×25.0", "0.6 h")


def test_the_parts_of_our_time_are_the_whole() -> None:
    table = autograde.breakdown(PAIRS)
    assert [row[1:] for row in table.rows] == [("150 ms", "75 %"), ("20 ms", "10 %"), ("30 ms", "15 %")]


def test_the_median_of_the_rounds_counts() -> None:
    slow = Cost(wall_s=400, cpu_s=400, students=6)
    assert autograde.marginal([*PAIRS[STOCK], (FEW, slow), *PAIRS[STOCK]]).wall_s == 5


def test_a_grade_that_differs_ends_the_measurement() -> None:
    full = {"s0": ["q"]}
    autograde.demand_equal({STOCK: {"s0": 1.0}, ONE: {"s0": 1.0, "s1": 0.0}, OTTER: {"s0": ["q"]}}, full)
    with pytest.raises(SystemExit, match=r"s0: ours, 1 worker says 2\.0, nbgrader autograde 1\.0"):
        autograde.demand_equal({STOCK: {"s0": 1.0}, ONE: {"s0": 2.0}}, full)
    with pytest.raises(SystemExit, match="otter"):
        autograde.demand_equal({STOCK: {"s0": 1.0}, OTTER: {"s0": []}}, full)


@pytest.mark.parametrize(
    ("source", "answer", "holds"),
    [
        ("assert f(2) == 4", 2, True),
        ("assert f(2) == 4", 3, False),
        ("n = f(1)\nk = [n for _ in range(2)]\nsum(k) / 4", 2, True),
        ("n = f(1)\nk = [n for _ in range(2)]\nsum(k) / 4", 1, False),
        ("f(2)", 0, True),
    ],
)
def test_a_test_file_of_otter_s_holds_where_the_cell_gives_all_points(source: str, answer: int, holds: bool) -> None:
    tree = ast.parse(otter.TEST.format(name="q", source=source))
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    function.decorator_list = []
    names: dict[str, object] = {"ast": ast, "SOURCE": source, "name": "q"}
    exec(compile(ast.Module([function], []), "q", "exec"), names)  # noqa: S102  # the benchmark's own text
    try:
        names["checked"]({"f": lambda x: answer * x})  # type: ignore[operator]  # the function that was just made
        found = True
    except AssertionError:
        found = False
    assert found is holds


def test_the_page_has_room_for_the_figures() -> None:
    page = (Path(__file__).parents[2] / "docs" / "performance.md").read_text(encoding="utf-8")
    assert "### Where our CPU time goes" in between_marks(page, as_markdown(autograde.breakdown(PAIRS)), autograde.MARK)
