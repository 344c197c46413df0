"""The line that mends a finding, put in its place: the program runs, and isn't found to do that any more."""

from __future__ import annotations

import inspect
import textwrap
import warnings
from contextlib import suppress
from typing import Any

import pytest
import torch

import seegrad
from nbjudge_tests.session import some
from seegrad.model.recording import Diagnosis, Recording
from tests.data.programs import programs
from tests.library.recorded import seen, standing

KINDS = {
    *("saved_tensor_modified", "silent_corruption", "leaf_modified", "view_modified", "memory_overlaps"),
    *("graph_freed", "graph_kept", "graph_cut", "constant_term", "loss_of_probabilities"),
}
AND_MORE = {"d_split_logits_divided_in_place", "iw_kept_slopes_scaled_by_each_backward"}
"""Programs in which something else is wrong, too: a second finding hides behind the first."""
SOME = some(60, sorted(name for name, program in standing().items() if program.kind in KINDS))


def offered(name: str) -> list[Diagnosis]:
    """The findings of a program that one line mends."""
    return [each for each in seen(name).recording.diagnoses if each.mend]


def mended(name: str, finding: Diagnosis) -> Recording:
    """The program recorded with the line in its place."""
    program, mend = programs()[name], finding.mend
    assert mend
    lines, first = inspect.getsourcelines(program.run)
    at = mend.place.line - first
    assert lines[at].strip() == mend.place.code, "the line is in the program itself"
    lines[at] = lines[at].replace(mend.place.code, mend.line)
    text = textwrap.dedent(
        "".join(lines[next(k for k, line in enumerate(lines) if line.lstrip().startswith("def ")) :])
    )
    scope: dict[str, Any] = dict(program.run.__globals__)
    exec(compile(text, f"<{name}>", "exec"), scope)  # noqa: S102  # the corpus's own text
    torch.manual_seed(0)
    rec = seegrad.record(program.detail, (f"<{name}>", 1, text), check_nan=program.check_nan)  # type: ignore[arg-type]  # a detail
    with warnings.catch_warnings(action="ignore"), suppress(RuntimeError), rec:
        scope[program.run.__name__]()
    return rec.recording


@pytest.mark.parametrize("name", SOME)
def test_the_line_mends_what_was_found(name: str) -> None:
    """The finding is gone, and no error leaves the program."""
    for finding in offered(name):
        after = mended(name, finding)
        assert (finding.kind, finding.tensor) not in {(each.kind, each.tensor) for each in after.diagnoses}
        assert (after.error is not None) == (name in AND_MORE)


def test_lines_of_each_kind_are_offered() -> None:
    first = {programs()[name].kind: name for name in ("s000_in22_data", "k_backward_twice", "k_view_of_a_leaf")}
    for kind, name in first.items():
        assert [each.kind for each in offered(name)] == [kind]


@pytest.mark.parametrize("name", ["v_discriminator_steps_between", "k_two_losses"])
def test_where_a_line_has_to_move_none_is_offered(name: str) -> None:
    assert seen(name).recording.diagnoses
    assert not offered(name)
