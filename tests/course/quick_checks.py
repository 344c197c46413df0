"""A code exercise's own cells, run here and now: hundreds of answers, each with many seeds, in seconds.

What grades is the real grader (`graded_class.py`); this finds out what its tests let pass.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import sys
import warnings
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import torch

from seegrad.check import CheckFailed
from tests.course.answer_files import Answer, assignments, exercises, kind_of, master

CODE = {"repair", "write"}


def code_exercises() -> list[tuple[str, str]]:
    """Assignment and grade_id of each exercise whose answer is a function."""
    return [(name, exercise) for name in assignments() for exercise in exercises(name) if kind_of(exercise) in CODE]


def refusal(name: str, answer: Answer, seed: int) -> str | None:
    """Why the whole test, with this seed, refuses an answer; None where it accepts it."""
    names: dict[str, Any] = {}
    with as_it_was():
        torch.manual_seed(seed)
        for code in _given(name, answer.cell):
            exec(code, names)  # noqa: S102  # the course's own cells
        try:
            exec(_compiled(answer.source, f"<{answer}>"), names)  # noqa: S102  # its answers
            exec(_test(name, answer.cell), names)  # noqa: S102  # and its tests
        except CheckFailed as failure:
            return str(failure)
        except Exception as error:  # a test that stumbles over an answer refuses it, in worse words
            return f"{type(error).__name__}: {error}"
    return None


def untouched_lines(name: str, answer: Answer, seed: int) -> set[int]:
    """The lines of a right answer's functions that this seed's test never runs; of a repair only the repaired ones."""
    file = f"<{answer}>"
    ran: set[int] = set()

    def trace(frame: FrameType, event: str, _arg: Any) -> Any:
        if frame.f_code.co_filename != file:
            return None
        if event == "line":
            ran.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert refusal(name, answer, seed) is None
    finally:
        sys.settrace(before)
    first = answer.source.partition("### BEGIN SOLUTION")[0].count("\n")
    return {line for line in _lines(_compiled(answer.source, file)) if line >= first} - ran


def _lines(code: CodeType) -> set[int]:
    """The lines inside of a module's functions, at any depth."""
    found, left = set[int](), [part for part in code.co_consts if isinstance(part, CodeType)]
    while left:
        one = left.pop()
        found |= {line for _start, _end, line in one.co_lines() if line and line > one.co_firstlineno}
        left += [part for part in one.co_consts if isinstance(part, CodeType)]
    return found


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
    """The plain cells above an exercise's test that aren't answers."""
    found = []
    for cell in master(name).cells:
        if cell.grade_id == f"{exercise}_test":
            break
        if cell.cell_type == "code" and cell.kind is None:
            found.append(_compiled(re.sub(r"^%.*$", "", cell.source, flags=re.MULTILINE), f"<{name}>"))
    return found


@functools.cache
def _test(name: str, exercise: str) -> CodeType:
    return _compiled(exercises(name)[exercise][1].source, f"<{name}: {exercise}_test>")


@functools.cache
def _compiled(source: str, where: str) -> CodeType:
    return compile(source, where, "exec")
