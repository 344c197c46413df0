"""Shapes that fit by chance: the mend that each sentence proposes, applied to the program it is said about."""

from __future__ import annotations

import pytest
import torch

import seegrad
from seegrad.model.recording import Recording
from tests.data.programs import programs
from tests.library.diagnose.training.mended import mended
from tests.library.recorded import seen

MENDS = {
    "s_regression_beside_a_column": ("prediction = model(x)\n", "prediction = model(x).squeeze(1)\n"),
    "s_huber_of_temporal_differences": (
        "reward + 0.9 * target_net(after).amax(1)\n",
        "(reward + 0.9 * target_net(after).amax(1)).unsqueeze(1)\n",
    ),
    "s_policy_gradient_weighed_crosswise": (".log_prob(action)", ".log_prob(action).unsqueeze(1)"),
    "s_warmth_flattened_by_one_line": ("foretell().squeeze(-1)", "foretell()"),
    "s_mask_without_its_channel": ("masks = (images[:, 0] > 0).float()", "masks = (images > 0).float()"),
    "s_pooling_attention_over_the_wrong_dimension": ("dim=2", "dim=1"),
    "s_cross_entropy_with_one_output": (
        "F.cross_entropy(out, torch.zeros(8, dtype=torch.long))",
        "F.binary_cross_entropy_with_logits(out, torch.zeros(8, 1))",
    ),
    "s_probabilities_of_one_channel": ("F.softmax(net(images) / 2, dim=1)", "torch.sigmoid(net(images) / 2)"),
}
"""Program → a line of it, and what the advice makes of it."""

OWN = {name: each for name, each in programs().items() if each.run.__module__.endswith(".shapes")}
BROKEN = {name: each.kind for name, each in OWN.items() if each.kind is not None}


def test_every_broken_program_has_its_mend() -> None:
    assert MENDS.keys() == BROKEN.keys()


@pytest.mark.parametrize("name", MENDS)
def test_the_mend_ends_it(name: str) -> None:
    assert [each.kind for each in seen(name).recording.diagnoses] == [BROKEN[name]]
    assert not mended(name, MENDS[name]).kinds


@pytest.mark.parametrize("name", [name for name in OWN if name not in BROKEN])
def test_shapes_that_are_meant_get_no_note(name: str) -> None:
    assert not seen(name).recording.diagnoses


@pytest.mark.parametrize("name", [name for name, kind in BROKEN.items() if kind == "softmax_of_one"])
def test_what_is_said_of_the_gradient_is_so(name: str) -> None:
    """Oracle: torch's own gradient of the layer."""
    held = mended(name, ("opt.step()", "pass")).held
    layers = [each for each in held.values() if isinstance(each, torch.nn.Module)]
    weight = next(each for layer in layers for each in layer.parameters() if each.ndim > 1 and each.shape[0] == 1)
    assert weight.grad is not None
    assert not weight.grad.any()


def test_the_lines_that_share_a_flattened_tensor_are_said() -> None:
    program = "s_warmth_flattened_by_one_line"
    (told,) = seen(program).recording.diagnoses
    assert told.culprit is not None
    line = told.culprit.line
    assert "makes `warm` [11] of [11, 1]" in told.message()
    assert f"line {line + 1} and line {line + 2} have it meet" in told.message()


def test_the_shapes_are_said() -> None:
    said = seen("s_regression_beside_a_column").recording.diagnoses[0].message()
    assert "makes [12, 12] of `y` [12] and `prediction` [12, 1]" in said
    assert "`.unsqueeze(1)` for `y`, or `.squeeze(1)` for `prediction`" in said


@pytest.mark.parametrize(("axis", "kept"), [(-1, -1), (1, 1), (0, 0)])
def test_the_dimension_of_a_softmax_is_kept_as_it_was_given(axis: int, kept: int) -> None:
    a = torch.randn(3, 2, requires_grad=True)
    with seegrad.record() as rec:
        a.softmax(axis)
        torch.log_softmax(a, axis)
    assert [each.axis for each in rec.recording.nodes if "softmax" in each.op] == [kept, kept]
    assert Recording.from_json(rec.recording.to_json()) == rec.recording
