"""python -m benchmarks.crash [KILLS [SEED]]: kill -9 at random moments of the grading of 40 students, 100 by default.

Ends with status 0 where the grades are those of a run that nobody disturbed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from nbjudge_tests import crashes
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import nbgrader, python
from nbjudge_tests.classroom.gradebook import rows

STUDENTS, KILLS, SEED = 40, 100, 1


def main() -> None:
    """Kills, compares, prints."""
    kills, seed = ([int(text) for text in sys.argv[1:]] + [KILLS, SEED][len(sys.argv) - 1 :])[:2]
    with tempfile.TemporaryDirectory() as folder:
        root = small.make(Path(folder) / "course")
        nbgrader(root, "generate_assignment", small.NAME)
        for number in range(STUDENTS):
            answers = (small.RIGHT, small.PARTLY, small.NOTHING)[number % 3]
            small.hand_in(root, f"s{number:02}", answers, "2026-02-03 12:00:00 UTC")
        quiet = Path(folder) / "quiet"
        shutil.copytree(root, quiet)
        python(quiet, "-m", "nbjudge", "autograde", small.NAME)
        temporary = Path(folder) / "temporary"
        temporary.mkdir()
        siege = crashes.besiege(crashes.grading(small.NAME), root, kills, seed, temporary=temporary)
        assert rows(root) == rows(quiet), "a kill has changed a grade"
        left = [*root.rglob("*.tmp"), *root.rglob("*.swap"), *temporary.iterdir()]
        assert not left, f"left behind: {left}"
    print(
        f"{siege.kills.total()} kills ({dict(siege.kills)}), {siege.starts} starts, grades as undisturbed, nothing left"
    )


if __name__ == "__main__":
    main()
