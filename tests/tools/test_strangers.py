"""What is made of other people's courses: wrong answers, and the comparison of two gradebooks' rows."""

from __future__ import annotations

from typing import Any

from tools.strangers.rows import PointsPair, told
from tools.strangers.wrong import handed_in

ANSWERS = ("def area(w, h):\n    return w * h - 1", "import math\nsides = 3")


def book(*answers: str) -> dict[str, Any]:
    cells = [
        {"cell_type": "code", "metadata": {"nbgrader": {"solution": True, "grade_id": f"a{n}"}}, "source": text}
        for n, text in enumerate(answers)
    ]
    return {"cells": cells}


def test_a_class_hands_in_every_kind_of_wrong_answer_once() -> None:
    made = {name: [cell["source"] for cell in one["cells"]] for name, one in handed_in(book(*ANSWERS), book("", ""))}
    assert made == {
        "solution": [*ANSWERS],
        "release": ["", ""],
        "half": [ANSWERS[0], ""],
        "nothing-returned": ["def area(w, h):\n    return None", "import math\nsides = None"],
        "one-off": ["def area(w, h):\n    return w * h - 2", "import math\nsides = 4"],
        "other-operators": ["def area(w, h):\n    return w + h + 1", ANSWERS[1]],
        "turned-round": ["def area(w, h):\n    return 1 - w * h", ANSWERS[1]],
        "other-kind": ["def area(w, h):\n    return (w * h - 1,)", ANSWERS[1]],
    }


def test_rows_are_counted_and_what_differs_is_told_by_its_cause() -> None:
    found = [
        PointsPair("ps1", "solution", "q1", 2.0, 2.0, 2.0),
        PointsPair("ps1", "half", "q1", 2.0, 1.0, None, "grader failure: needs the name 'x'"),
        PointsPair("ps1", "half", "q2", 2.0, 1.0, None, "grader failure: needs the name 'y'"),
        PointsPair("ps1", "half", "q3", 2.0, 0.0, 2.0, "passed: "),
        PointsPair("ps1", "half", "q4", 2.0, None, None),
    ]
    assert told(found) == [
        "5 rows compared: 2 equal, 3 differ",
        "    2  not graded: grader failure: needs the name '…'",
        "         ps1 · half · q1: stock 1.0, ours None",
        "         ps1 · half · q2: stock 1.0, ours None",
        "    1  higher: passed: ",
        "         ps1 · half · q3: stock 0.0, ours 2.0",
    ]
