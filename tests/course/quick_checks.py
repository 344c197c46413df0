"""An exercise's own cells, run here and now: hundreds of answers, each with many seeds, in seconds.

What grades is the real grader (`graded_class.py`); this finds out what its tests let pass.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from coverage import Coverage

from seegrad.check import CheckFailed
from tests.course.answer_files import Answer, assignments, exercises, kind_of, master

CODE = {"repair", "write"}


def code_exercises() -> list[tuple[str, str]]:
    """Assignment and grade_id of each exercise whose answer is a function."""
    return [(name, exercise) for name in assignments() for exercise in exercises(name) if kind_of(exercise) in CODE]


def refusal(name: str, answer: Answer, seed: int, file: str = "<answer>") -> str | None:
    """Why the whole test, with this seed, refuses an answer; None where it accepts it."""
    names: dict[str, Any] = {}
    with as_it_was():
        torch.manual_seed(seed)
        for code in _given(name, answer.cell):
            exec(code, names)  # noqa: S102  # the course's own cells
        try:
            exec(_compiled(answer.source, file), names)  # noqa: S102  # its answers
            exec(_test(name, answer.cell), names)  # noqa: S102  # and its tests
        except CheckFailed as failure:
            return str(failure)
        except Exception as error:  # a test that stumbles over an answer refuses it, in worse words
            return f"{type(error).__name__}: {error}"
    return None


def untold(said: str) -> set[str]:
    """The names in what was asked that have no value in what was given; `["no code"]` where it can't be run.

    >>> untold("Asked      (f(x, w) * c).sum().backward(); x.grad with x = [1, 2], w = 3")
    {'c'}
    """
    asked = next((line for line in said.splitlines() if line.startswith("Asked")), "Asked None")
    code, _with, given = asked.removeprefix("Asked").strip().partition(" with ")
    try:
        tree = list(ast.walk(ast.parse(code.partition(" of ")[2] if code.startswith("∂") else code)))
    except SyntaxError:
        return {"no code"}
    names = [node for node in tree if isinstance(node, ast.Name)]
    known = {name.id for name in names if isinstance(name.ctx, ast.Store)} | {"torch"}
    known |= {node.func.id for node in tree if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return {name.id for name in names if name.id not in known and f"{name.id} = " not in given}


def suggested(name: str, answer: Answer) -> tuple[str, ...]:
    """The misconceptions that the whole test suggests, of its failure or of the score that it ends with."""
    names: dict[str, Any] = {}
    test = ast.parse(exercises(name)[answer.cell][1].source)
    if isinstance(test.body[-1], ast.Expr):
        test.body[-1] = ast.Assign([ast.Name("end", ast.Store())], test.body[-1].value)
    with as_it_was():
        for code in _given(name, answer.cell):
            exec(code, names)  # noqa: S102  # the course's own cells
        exec(_compiled(answer.source, "<answer>"), names)  # noqa: S102  # its answers
        try:
            exec(compile(ast.fix_missing_locations(test), "<test>", "exec"), names)  # noqa: S102  # and its tests
        except CheckFailed as failure:
            return failure.misconceptions
    return tuple(names["end"].misconceptions)


def untaken(name: str, answer: Answer, seed: int, folder: Path) -> list[str]:
    """What a right answer has and this seed's test never runs: lines, and branches; of a repair the repaired ones."""
    file = folder / f"{name}_{answer.cell}.py"  # coverage reads there which branches there are
    file.write_text(answer.source, encoding="utf-8")
    measured = Coverage(data_file=None, config_file=False, branch=True, include=[str(file)])
    with measured.collect():
        assert refusal(name, answer, seed, str(file)) is None
    lines = measured.analysis2(str(file))[3]
    ways = {line: exits - taken for line, (exits, taken) in measured.branch_stats(str(file)).items()}
    first = answer.source[: max(0, answer.source.find("### BEGIN SOLUTION"))].count("\n")
    missed = [f"line {line}" for line in lines if line >= first]
    return missed + [f"{left} ways out of line {line}" for line, left in ways.items() if left and line >= first]


@contextlib.contextmanager
def as_it_was() -> Iterator[None]:
    """Afterwards torch's own state is what it was: an answer may set it."""
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    silenced = contextlib.redirect_stdout(io.StringIO())
    with torch.random.fork_rng(devices=[]), silenced, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in a learner's kernel: torch warns of what some answers do
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)


@functools.cache
def _given(name: str, exercise: str) -> list[CodeType]:
    """The plain cells above an exercise's test that aren't answers; no picture that a learner clicks on is drawn."""
    found = []
    for cell in master(name).cells:
        if cell.grade_id == f"{exercise}_test":
            break
        if cell.cell_type == "code" and cell.kind is None and not re.search(r"^(seegrad\.)?pick\(", cell.source, re.M):
            found.append(_compiled(re.sub(r"^%.*$", "", cell.source, flags=re.MULTILINE), f"<{name}>"))
    return found


@functools.cache
def _test(name: str, exercise: str) -> CodeType:
    return _compiled(exercises(name)[exercise][1].source, f"<{name}: {exercise}_test>")


@functools.cache
def _compiled(source: str, where: str) -> CodeType:
    return compile(source, where, "exec")
