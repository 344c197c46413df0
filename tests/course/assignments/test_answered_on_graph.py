"""Exercises that are answered on their graph: a picture asks what its prompt asks, and offers the right answer too."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from seegrad.model.scene import Question, Scene
from seegrad.quiz.entries import SEPARATOR
from tests.course.answer_files import ROOT
from tools.course.masters import MasterCell, read_master

NONE_ON_A_GRAPH = {"09_own_engine"}  # its engines are code, its answers numbers and lines of that code
MASTERS = sorted(path.stem for path in (ROOT / "source").glob("*.py"))
LISTING = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
NUMBERED = re.compile(r" ?1 +")


@dataclass(frozen=True)
class Picked:
    """A cell that asks on the graph, with what stands around it."""

    scene: Scene
    program: str
    listings: tuple[str, ...]
    answer: MasterCell


def unnumbered(listing: str) -> str:
    head = NUMBERED.match(listing)
    return "\n".join(line[head.end() if head else 0 :] for line in listing.strip("\n").splitlines())


def picked(name: str) -> Iterator[Picked]:
    cells = read_master(ROOT / "source" / f"{name}.py").cells
    for place, cell in enumerate(cells):
        if cell.kind is not None or "import pick" not in cell.source:
            continue
        names: dict[str, Any] = {}
        body = ast.parse(cell.source).body
        call = body[-1]
        assert isinstance(call, ast.Expr), "what it shows is the cell's value"
        assert isinstance(call.value, ast.Call)
        exec(compile(ast.Module(body[:-1], []), name, "exec"), names)  # noqa: S102  # a master's own cell
        shown = eval(compile(ast.Expression(call.value), name, "eval"), names)  # noqa: S307  # the same
        since = max(k for k in range(place) if cells[k].source.startswith("## "))
        prompt = "\n\n".join(each.source for each in cells[since:place] if each.cell_type == "markdown")
        listings = tuple(unnumbered(each[1]) for each in LISTING.finditer(prompt))
        answer = next(each for each in cells[place:] if each.kind == "solution")
        yield Picked(shown._scene, ast.literal_eval(call.value.args[2]).strip(), listings, answer)


@pytest.fixture(scope="module")
def asked() -> dict[str, list[Picked]]:
    return {name: list(picked(name)) for name in MASTERS}


def variable(question: Question) -> str:
    return question.name.partition(" ")[0]


def test_every_assignment_with_a_graph_asks_on_one(asked: dict[str, list[Picked]]) -> None:
    assert {name for name, found in asked.items() if not found} == NONE_ON_A_GRAPH
    listed = (ROOT / "docs/teaching/README.md").read_text(encoding="utf-8")
    for name, found in asked.items():
        for grade_id in {each.answer.grade_id for each in found}:
            assert f"`{grade_id}`" in next(line for line in listed.splitlines() if line.startswith(f"| {name[:2]} "))


def test_an_answer_to_a_part_says_so(asked: dict[str, list[Picked]]) -> None:
    """What is copied from one picture leaves alone what was pasted from another."""
    for found in asked.values():
        for each in found:
            others = [one for one in found if one.answer is each.answer and one is not each]
            assert each.scene.question is not None
            assert bool(others) == each.scene.question.name.endswith(" |")


def test_the_program_is_the_prompt_s(asked: dict[str, list[Picked]]) -> None:
    for name, found in asked.items():
        for each in found:
            assert each.program in each.listings, name


def test_what_is_asked_is_what_the_answer_cell_holds(asked: dict[str, list[Picked]]) -> None:
    """Each entry of the stub in one picture, the reference's value among its choices, and more than one to choose."""
    for name, found in asked.items():
        for grade_id in {each.answer.grade_id for each in found}:
            pictures = [each for each in found if each.answer.grade_id == grade_id]
            question = pictures[0].scene.question
            assert question is not None
            names: dict[str, Any] = {}
            exec(pictures[0].answer.source, names)  # noqa: S102  # the reference's own answer
            choices: dict[str, set[str]] = {}
            for each in pictures:
                for choice in each.scene.question.choices if each.scene.question else ():
                    entry, value = choice.key.split(SEPARATOR)
                    choices.setdefault(entry, set()).add(value)
            assert {
                entry: json.dumps(value) in choices[entry] for entry, value in names[variable(question)].items()
            } == (dict.fromkeys(choices, True)), name
            assert min(map(len, choices.values())) > 1


def test_the_visible_check_takes_every_choice(asked: dict[str, list[Picked]]) -> None:
    """A learner who answers on the picture alone never meets a value that isn't allowed."""
    for name in asked:
        cells = read_master(ROOT / "source" / f"{name}.py").cells
        for each in asked[name]:
            place = cells.index(each.answer)
            visible = cells[place + 1].source.split("### BEGIN HIDDEN TESTS")[0]
            question = each.scene.question
            assert question is not None
            for choice in question.choices:
                entry, value = choice.key.split(SEPARATOR)
                names: dict[str, Any] = {}
                exec(each.answer.source, names)  # noqa: S102  # the reference's own answer
                names[variable(question)][entry] = json.loads(value)
                exec(visible, names)  # noqa: S102  # the release's own check
