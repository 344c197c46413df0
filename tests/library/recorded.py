"""The corpus recorded: each program of `tests/data/programs` once in a test session, whoever asks for it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from unittest import mock

import torch

import seegrad
from nbjudge_tests.session import one_in
from tests.data.programs import Program, programs


@cache
def standing() -> dict[str, Program]:
    """Those that are recorded in `make test` and stand for the others: one in six, and of each kind the first."""
    first = {each.kind: each.name for each in reversed(programs().values())}
    stand = {*one_in(6, programs()), *first.values()}
    return {name: each for name, each in programs().items() if name in stand}


@dataclass(frozen=True)
class Seen:
    """What was recorded of a program, and what it raised."""

    recording: seegrad.Recording
    raised: Exception | None


@cache
def seen(name: str) -> Seen:
    """The one recording that tests share; nothing in it can be changed."""
    return recorded_anew(name)


def recorded_anew(name: str) -> Seen:
    """Recorded with the program's own detail; an error of seegrad's own is raised, a warning is torch's affair."""
    torch.manual_seed(0)
    program, raised = programs()[name], None
    rec = seegrad.record(detail=program.detail, check_nan=program.check_nan, check_functions=program.check_functions)
    with mock.patch.dict("os.environ", SEEGRAD_RAISE_OWN_ERRORS="1"), warnings.catch_warnings(action="ignore"):
        try:
            with rec:
                program.run()
        except Exception as error:
            raised = error.with_traceback(None)  # its frames would keep the program's tensors alive
    return Seen(rec.recording, raised)
