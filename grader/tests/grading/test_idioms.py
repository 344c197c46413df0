"""What `IDIOMS.md` says of each test idiom, against stock nbgrader's own grades. The page's rows are the parameters."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

import nbgrader
import pytest

from nbjudge.grading.trial import warm_judge
from nbjudge.model import Limits, Outcome
from nbjudge_tests.classroom import idioms, stock
from nbjudge_tests.session import ALL

PAGE = Path(__file__).parents[2] / "IDIOMS.md"
ROW = re.compile(r"^\| \[.*\]\(tests/data/idioms/(\w+)\.ipy\) \| .* \| (.*) \|$", re.MULTILINE)
EQUAL, SAID, DIFFERS = "as stock nbgrader", "said when generated", "differs"
SAYS = dict(ROW.findall(PAGE.read_text(encoding="utf-8")))
# A notebook takes seconds in each grader: what differs is always tried, of what is equal one in sixteen.
ONE_IN = {EQUAL: 16, SAID: 6, DIFFERS: 1}
EACH = {said: next(ONE_IN[kind] for kind in ONE_IN if said.startswith(kind)) for said in SAYS.values()}
TRIED = [name for number, (name, said) in enumerate(SAYS.items()) if ALL or number % EACH[said] == 0]
ALONE = {"exit", "os_exit"}  # stock nbgrader's kernel ends in their middle: it grades nothing
OURS = ALONE | {name for name, said in SAYS.items() if said.startswith(SAID)}  # nothing is asked of stock nbgrader's
AUTOTESTS = Path(nbgrader.__file__).parent / "docs" / "source" / "user_guide" / "autotests.yml"
TITLES = ("solution", "release", "one off")
pytestmark = [  # of stock nbgrader's kernel
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@dataclass(frozen=True)
class Found:
    """Rows that both have graded, and those that only we have."""

    rows: stock.Rows
    alone: dict[stock.Row, Outcome]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("idioms")
    names = [name for name in TRIED if (need := _needs(name)) == "" or importlib.util.find_spec(need)]
    sources = idioms.write(names, folder / "masters") | {"autotests.yml": AUTOTESTS}
    made = stock.course(folder / "course", "idioms", sources)
    with warm_judge(Limits(cell_s=10), trust_students=False) as run:
        rows = stock.both(made, "idioms", run, TITLES, alone=OURS)
    alone = {row: one for row, one in rows.ours.items() if row[0].partition(":")[0] in ALONE}
    return Found(rows, alone)


def _needs(name: str) -> str:
    return idioms.needs((idioms.FOLDER / f"{name}.ipy").read_text(encoding="utf-8"))


def test_the_page_has_every_idiom_and_no_other() -> None:
    assert set(SAYS) == {path.stem for path in idioms.FOLDER.glob("*.ipy")}
    assert all(re.match(rf"{EQUAL}$|{SAID}: `|{DIFFERS}: ", said) for said in SAYS.values())


@pytest.mark.parametrize("name", [name for name in TRIED if SAYS[name] == EQUAL])
def test_every_row_is_as_stock_has_it(name: str, found: Found) -> None:
    if (need := _needs(name)) and not importlib.util.find_spec(need):
        pytest.skip(f"{need} isn't installed")
    theirs = {row: points for row, points in found.rows.stock.items() if row[0].startswith(f"{name}: ")}
    ours = {row: found.rows.ours[row] for row in theirs}
    assert {row: (one.points, one.message) for row, one in ours.items() if one.points != theirs[row]} == {}
    graded = [row for row in theirs if theirs[row] is not None]
    right = [theirs[row] == ours[row].max_points for row in graded if row[0] == f"{name}: solution"]
    assert all(right)
    assert right
    assert any(theirs[row] == 0 for row in graded) or name in NEVER_LOST


NEVER_LOST: set[str] = set()


@pytest.mark.parametrize("name", [name for name in TRIED if SAYS[name].startswith(SAID)])
def test_what_can_t_be_carried_is_said_of_the_author_s_own_answers(name: str, found: Found) -> None:
    words = re.search(r"`([^`]+)`", SAYS[name])
    assert words is not None
    ours = [one for row, one in found.rows.ours.items() if row[0] == f"{name}: solution"]
    assert any(one.points != one.max_points and words[1] in one.message for one in ours)


@pytest.mark.parametrize("name", ["doctest_inside", "doctest_run_examples", "doctest_testmod"])
def test_examples_run_as_they_were_released_and_others_wait(name: str, found: Found) -> None:
    assert SAYS[name].startswith(DIFFERS)
    theirs, ours = found.rows.stock, found.rows.ours
    right = [row for row in theirs if row[0] == f"{name}: solution"]
    assert (
        [ours[row].points for row in right] == [theirs[row] for row in right] == [ours[row].max_points for row in right]
    )
    other = [one for row, one in ours.items() if row[0] == f"{name}: one off"]
    assert all(one.points != one.max_points for one in other)
    assert any("aren't the released ones" in one.message for one in other)


def test_a_constant_that_stands_ready_is_the_released_one(found: Found) -> None:
    rows = {title: (f"ready_constant: {title}", "test-1") for title in TITLES}
    assert [found.rows.stock[row] for row in rows.values()] == [1, 0, 1]
    assert [found.rows.ours[row].points for row in rows.values()] == [1, 0, 0]


def test_what_is_written_to_stderr_costs_nothing(found: Found) -> None:
    row = ("unittest_main: solution", "test-1")
    assert (found.rows.stock[row], found.rows.ours[row].points) == (0, 2)


def test_a_cell_that_ends_the_process_costs_what_comes_after_it(found: Found) -> None:
    points = {row[0]: [] for row in found.alone}
    for row, one in found.alone.items():
        points[row[0]].append(one.points)
    assert points["exit: solution"] == [1]
    assert points["os_exit: solution"] == [1, 0]
