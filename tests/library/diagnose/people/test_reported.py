"""Programs rebuilt from reports: what the sentence advises, done to each, ends its finding and lets it learn."""

from __future__ import annotations

import contextlib
import io
import tomllib
from pathlib import Path

import pytest
import torch
from torch import nn

from nbjudge_tests.session import some
from seegrad.model.recording import GradientUse, Recording
from tests.data.programs import programs
from tests.library.diagnose.training.mended import Mended, mended
from tests.library.recorded import seen

DATA = Path(__file__).parents[3] / "data"
OWN = {name: each for name, each in programs().items() if ".reported_" in each.run.__module__}

MENDS: dict[str, list[tuple[str, str]]] = {
    name: [(each["old"], each["new"]) for each in edits]
    for name, edits in tomllib.loads((DATA / "reported_mends.toml").read_text(encoding="utf-8")).items()
}
"""Program → what its advice makes of it."""

TOLD_STILL = {
    "q_normalised_gradient_of_zero": ["gradient_is_zero"],
    "n_look_ahead_of_a_line_without_a_module": ["gradients_never_cleared"] * 4,
    "th_layers_that_are_built_and_never_called": ["never_reached"],
    "th_guide_that_learns_in_some_turns_alone": ["constant_term"],
}
"""What is true of the program besides: its gate is shut; its loop by hand never clears; nobody needs its layers; in
each second turn its guide's term is constant."""


def wrote(mend: list[tuple[str, str]], name: str) -> Mended:
    with contextlib.redirect_stdout(io.StringIO()):
        return mended(name, *mend)


def test_every_report_has_its_mend() -> None:
    broken = {name for name, each in OWN.items() if each.kind is not None}
    assert set(MENDS) == broken


@pytest.mark.slow
@pytest.mark.parametrize("name", some(25, sorted(MENDS)))
def test_the_mend_ends_it_and_what_was_named_learns(name: str) -> None:
    """No finding is left, every number is finite, and what wasn't trained is.

    Oracle beside the findings: what the program trains. A graph that was kept costs memory alone, so not a bit of the
    weights may change; what was silently wrong has other weights; what raised comes to its end.
    """
    after, told = wrote(MENDS[name], name), next(iter(seen(name).recording.diagnoses))
    assert after.kinds == TOLD_STILL.get(name, [])
    assert all(bool(weight.isfinite().all()) for weight in weights(after))
    if told.kind in ("graph_cut", "never_reached", "no_optimiser_holds_it"):
        assert has_learned(after.recording)
    if not told.raised and told.kind != "not_finite":
        before = weights(wrote([], name))
        same = len(before) == len(weights(after)) and all(map(torch.equal, before, weights(after)))
        shows = bool(before) and any(use.kind == "stepped" for use in after.recording.uses)
        assert same == (told.kind == "graph_kept") or (same and not shows)


def weights(run: Mended) -> list[torch.Tensor]:
    """Those, and the statistics, that the program's variables hold, or their attributes."""
    told = run.held.values() if isinstance(run.held, dict) else [run.held]  # its own, where it has given something back
    values = [each for held in told for each in (held, *getattr(held, "__dict__", {}).values())]
    leaves = [each for each in values if isinstance(each, nn.Parameter)]
    modules = [each for each in values if isinstance(each, nn.Module)]
    held = [*leaves, *(tensor for each in modules for tensor in (*each.parameters(), *each.buffers()))]
    return list({id(tensor): tensor for tensor in held}.values())


def has_learned(recording: Recording) -> bool:
    """Has each leaf of some step had a gradient in it?"""
    steps: list[GradientUse] = [use for use in recording.uses if use.kind == "stepped"]
    leaves = {leaf for step in steps for leaf, _ in step.tensors}
    return leaves == {leaf for step in steps for leaf, now in step.tensors if now is not None}


@pytest.mark.parametrize("name", [name for name, each in OWN.items() if each.kind is None])
def test_what_is_meant_so_gets_no_note(name: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        assert not seen(name).recording.diagnoses
