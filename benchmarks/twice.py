"""python -m benchmarks.twice [STUDENTS]: a class of 500 judged twice, everybody anew; status 1 where a grade differs.

Prints how many a minute.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.grading.classes import cost, course, scores, template
from tests.course.answer_files import ASSIGNMENT

STUDENTS = 500


def main() -> int:
    """Grades, grades again, compares."""
    students = int(sys.argv[1]) if len(sys.argv) > 1 else STUDENTS
    command = ("-m", "nbjudge", "autograde", ASSIGNMENT)
    with tempfile.TemporaryDirectory() as folder:
        root = course(template(Path(folder) / "made"), Path(folder) / "course", students)
        first = cost(root, students, command)
        once = scores(root)
        second = cost(root, students, (*command, "--force"))
        moved = [student for student, rows in scores(root).items() if once[student] != rows]
    for name, took in (("first", first), ("again", second)):
        rate, cpu_s = 60 * students / took.wall_s, took.cpu_s / students
        print(f"{name}: {students} students, {rate:.0f} a minute, {cpu_s:.2f} CPU s each")
    print(f"{len(moved)} of {students} gradebook rows differ {moved[:10]}")
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main())
