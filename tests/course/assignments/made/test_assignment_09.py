"""Assignment 09: its keyed answers are true, as the chapter's own engines say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.course.answer_files import answers, prompt
from tools.course.masters import read_master

NAME = "09_own_engine"
ROOT = Path(__file__).parents[4]
REPLACED = {  # report → the line as it was changed
    "A": "flowing[one] = part",
    "B": "value.grad = gradient",
    "C": "for value in sorted(graph(loss), key=lambda value: value.number):",
    "D": "flowing = {loss: mine}",
    "E": "parts = RULES[value.op](gradient, *(one.data for one in reversed(value.saved)))",
}


def key(exercise: str) -> dict[str, int]:
    """The right answer of an exercise of choices."""
    names: dict[str, Any] = {}
    exec(next(a.source for a in answers(NAME) if a.cell == exercise and a.right), names)  # noqa: S102  # the course's own
    return dict(names["prediction" if exercise == "predict" else "changed"])


@pytest.fixture
def chapter() -> dict[str, Any]:
    """What the chapter's cells define, up to the engine of section 3: classes and functions alone."""
    names: dict[str, Any] = {}
    for cell in read_master(ROOT / "notebooks" / f"{NAME}.py").cells:
        if cell.cell_type == "code" and re.match(r"\s*(import|class|def|RULES =)", cell.source):
            exec("\n".join(line for line in cell.source.splitlines() if line[:1] != "%"), names)  # noqa: S102  # our own
        if "def backward" in cell.source:
            return names
    raise AssertionError("no engine in the chapter")


def gradient(chapter: dict[str, Any], *engines: Callable[[Any], Any]) -> float:
    """`a.grad` of the exercise's program after these engines, one after the other."""
    a = chapter["Value"](2.0)
    c = a * a
    e = c * c + c
    for engine in engines:
        list(engine(e))
    return float(a.grad)


def test_each_predicted_gradient_is_the_one_that_such_an_engine_finds(chapter: dict[str, Any]) -> None:
    walk, ordered, backward = chapter["walk"], chapter["ordered"], chapter["backward"]
    found = {
        "A": gradient(chapter, backward),
        "C": gradient(chapter, walk),
        "D": gradient(chapter, backward, backward),
        "E": gradient(chapter, ordered, ordered),
    }
    push = chapter["push"]
    assigning = exec_in(chapter, "one.grad += gradient", "one.grad = gradient")
    found["B"] = gradient(assigning, assigning["ordered"])
    assert found == key("predict")
    assert chapter["push"] is push


def exec_in(chapter: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """The chapter's names with its `push` and `ordered` made anew, one line of them changed."""
    names = dict(chapter)
    for cell in read_master(ROOT / "notebooks" / f"{NAME}.py").cells:
        if "def push" in cell.source or "def ordered" in cell.source:
            exec(cell.source.replace(old, new), names)  # noqa: S102  # our own
    return names


def engine(chapter: dict[str, Any], report: str = "") -> Callable[..., None]:
    """The `backward` of exercise 2, with the line of this report changed."""
    listing = prompt(NAME, "find")
    lines = [code for _, code in re.findall(r"^(\d) {3}(.*)$", listing, re.MULTILINE)]
    assert len(lines) == 9
    if report:
        number = key("find")[report] - 1
        lines[number] = re.match(r" *", lines[number])[0] + REPLACED[report]  # type: ignore[index]  # it always matches
    names = dict(chapter)
    exec("def backward(loss, mine=2.0):\n" + "\n".join("    " + line for line in lines), names)  # noqa: S102  # our own
    return names["backward"]  # type: ignore[no-any-return]  # what the listing defines


def test_the_listing_is_a_right_engine_and_each_report_fits_its_line_alone(chapter: dict[str, Any]) -> None:
    value = chapter["Value"]

    def slopes(report: str, program: Callable[[Any, Any], Any], calls: int = 1) -> tuple[float, float]:
        a, b = value(3.0), value(5.0)
        loss = program(a, b)
        for _ in range(calls):
            engine(chapter, report)(loss)
        return a.grad, b.grad

    chapter["RULES"]["sub"] = lambda g: (g, -g)
    value.__sub__ = lambda self, other: value(self.data - other.data, "sub", (self, other))
    assert slopes("", lambda a, b: a * b) == (5, 3)
    assert (slopes("A", lambda a, b: a * b + a)[0], slopes("A", lambda a, b: a * b)) == (5, (5, 3))
    assert slopes("B", lambda a, b: a * b, 2) == slopes("B", lambda a, b: a * b) == (5, 3)
    with pytest.raises(KeyError):
        slopes("C", lambda a, b: a * b)
    assert slopes("D", lambda a, b: a * b) == (10, 6)
    assert (slopes("E", lambda a, b: a - b), slopes("E", lambda a, b: a * b)) == ((1, -1), (3, 5))
