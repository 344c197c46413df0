"""A training that Ctrl-C ends, or an error after it, is told what a training that has ended is told."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch

import seegrad
from nbjudge_tests.session import some
from tests.data.programs import programs
from tests.library.recorded import seen

MIGHT_HAVE_COME = {
    "never_stepped": "the step of an accumulation",
    "no_optimiser_holds_it": "the line that updates them, where one step was all",
    "graph_kept": "the backward of a sum, or of all that a list holds",
}
"""Kinds of which the end may be a part: what the rest of the program might have done."""


def interrupted(run: Callable[[], object], **options: object) -> seegrad.Recording:
    """What is recorded of a program that Ctrl-C ends where it has done its work."""
    torch.manual_seed(0)
    rec = seegrad.record(**options)  # type: ignore[arg-type]  # a program's own
    with contextlib.suppress(KeyboardInterrupt), rec:
        run()
        raise KeyboardInterrupt
    return rec.recording


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # a program's own warnings are torch's affair
@pytest.mark.parametrize("name", some(25, sorted(name for name in programs() if programs()[name].kind)))
def test_ctrl_c_hides_nothing(name: str) -> None:
    program, plain = programs()[name], seen(name)
    if plain.raised is not None:
        pytest.skip("It never comes to its end.")
    ended = interrupted(
        program.run, detail=program.detail, check_nan=program.check_nan, check_functions=program.check_functions
    )
    if program.kind in MIGHT_HAVE_COME and not ended.diagnoses:
        return
    told, expected = ended.diagnoses[0], plain.recording.diagnoses[0]
    assert (told.kind, told.culprit, told.message()) == (expected.kind, expected.culprit, expected.message())


@pytest.mark.parametrize(("steps", "told"), [(2, ["no_optimiser_holds_it"]), (1, [])])
def test_after_one_step_the_line_that_updates_them_might_have_come(steps: int, told: list[str]) -> None:
    held, left = (torch.nn.Linear(2, 2) for _ in range(2))
    optimizer = torch.optim.SGD(held.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            left(held(torch.ones(2))).sum().backward()
            optimizer.step()

    assert [each.kind for each in interrupted(train).diagnoses] == told
