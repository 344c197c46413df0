"""Lines that only the program's own text tells: a decorator, a hook's `return`, an attribute filled elsewhere."""

from __future__ import annotations

import contextlib
import inspect
import linecache
import textwrap

import pytest
import torch

import seegrad
from tests.data.programs import programs

LINES = {
    "t2_cell_state_with_its_history": "self.state = (h.detach(), c)",
    "ap_wishes_kept_by_their_key": "known[key] = compute(x)",
    "as_waves_kept_by_their_number": "self.known[steps] = waves",
    "t2_table_that_a_cache_hands_out": "@lru_cache(maxsize=4)  # noqa: B019  # that is the mistake",
    "t2_losses_that_are_never_emptied": "self.held.append(value)",
    "t2_hook_that_returns_what_it_measures": "return seen[name]",
}
"""Program → the line to change; the corpus is recorded from outside, where a Recording doesn't hold its text."""


@pytest.mark.parametrize("name", LINES)
def test_the_line_to_change_is_named(name: str) -> None:
    run = programs()[name].run
    text = textwrap.dedent(inspect.getsource(run)).partition("():\n")[2]
    text, file, space = f"with seegrad.record() as rec:\n{text}", f"<{name}>", {**run.__globals__, "seegrad": seegrad}
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    torch.manual_seed(0)
    with contextlib.suppress(RuntimeError):
        exec(compile(text, file, "exec"), space)  # noqa: S102  # our own program
    first = space["rec"].recording.diagnoses[0]
    assert first.culprit.code == LINES[name], first.message()
