"""nbgrader's own documentation course, which its package brings, through both graders: every row is equal.

`del squares` and what replaces it, `### AUTOTEST`, hashed too, hidden tests, answers read by a person, a task cell, a
file that a test opens beside the notebook.
"""

from __future__ import annotations

from pathlib import Path

import nbgrader
import pytest

from nbjudge.grading.trial import warm_judge
from nbjudge.model import Limits
from nbjudge_tests.classroom import stock

PACKAGE = Path(nbgrader.__file__).parent
GUIDE = PACKAGE / "docs" / "source" / "user_guide"
FILES = PACKAGE / "tests" / "apps" / "files"
SOURCES = {
    "problem1.ipynb": GUIDE / "source" / "ps1" / "problem1.ipynb",
    "problem2.ipynb": GUIDE / "source" / "ps1" / "problem2.ipynb",
    "autotest.ipynb": GUIDE / "source" / "ps1_autotest" / "problem1.ipynb",
    **{
        f"{name}.ipynb": FILES / f"{name}.ipynb"
        for name in ("test-hidden-tests", "open_relative_file", "autotest-multi")
    },
    "data.txt": FILES / "data.txt",
    "jupyter.png": FILES / "jupyter.png",
    "autotests.yml": GUIDE / "autotests.yml",
}
pytestmark = [  # of stock nbgrader's kernel
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
GIVEN_AWAY = {"test-hidden-tests"}  # its own solution is wrong on purpose


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> stock.Rows:
    made = stock.course(tmp_path_factory.mktemp("nbgrader") / "course", "ps1", SOURCES)
    with warm_judge(Limits(cell_s=10), trust_students=False) as run:
        return stock.both(made, "ps1", run)


@pytest.mark.whole  # test_idioms has the same oracle
@pytest.mark.slow
def test_every_row_is_equal(rows: stock.Rows) -> None:
    assert rows.differing() == {}
    assert len(rows.stock) > 100


@pytest.mark.whole  # the same
@pytest.mark.slow
def test_right_answers_get_everything_and_wrong_ones_lose_something(rows: stock.Rows) -> None:
    books = {row[0].split(": ")[0] for row in rows.stock} - GIVEN_AWAY
    assert books == {
        "problem1",
        "autotest",
        "autotest-multi",
        "open_relative_file",
    }  # in problem2 a person reads it all
    for book in books:
        graded = [one for row, one in rows.ours.items() if row[0] == f"{book}: solution" and one.points is not None]
        assert all(one.points == one.max_points for one in graded)
    lost = {row[0] for row, points in rows.stock.items() if points == 0}
    assert {"problem1: release", "problem1: returns nothing", "autotest: one off", "autotest-multi: release"} <= lost
