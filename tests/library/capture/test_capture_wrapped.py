"""`nn.Parameter(result)`: where the new leaf was made, however the program holds it, and when it's first used."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import seegrad
from seegrad.picture.sketch import sketch

LEAF = torch.tensor([1.0, 2.0], requires_grad=True)


def in_a_variable() -> torch.Tensor:
    result = LEAF * 2
    leaf = nn.Parameter(result)  # here
    scale = torch.ones(2).mul(3)
    return (leaf * scale).sum()


def in_a_list() -> torch.Tensor:
    result = LEAF * 2
    leaves = [nn.Parameter(torch.ones(2)), nn.Parameter(result)]  # here
    scale = torch.ones(2).mul(3)
    return (leaves[0] * leaves[1] * scale).sum()


def in_a_module() -> torch.Tensor:
    head = nn.Linear(2, 1)
    row = (LEAF * 2).unsqueeze(0)
    head.weight = nn.Parameter(row)  # here
    return head(torch.ones(1, 2).mul(3)).sum()


def in_no_variable() -> torch.Tensor:
    row = (LEAF * 2).unsqueeze(0)
    x = torch.ones(1, 2)
    return nn.functional.linear(x, nn.Parameter(row)).sum()  # here


def in_a_loop() -> torch.Tensor:
    result, total = LEAF * 2, torch.zeros(2)
    for _ in range(2):
        total = total + 1
        leaf = nn.Parameter(result)  # here
        scale = total * 3
        result = leaf * scale
    return result.sum()


def of_an_outer_function() -> torch.Tensor:
    leaf = nn.Parameter(LEAF * 2)  # here

    def score() -> torch.Tensor:
        scale = torch.ones(2).mul(3)
        return (leaf * scale).sum()

    return score()


PROGRAMS = (in_a_variable, in_a_list, in_a_module, in_no_variable, in_a_loop, of_an_outer_function)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_line_that_made_the_leaf_cut_the_graph(program: Callable[[], torch.Tensor]) -> None:
    with seegrad.record() as rec:
        program().backward()
    (cut,) = rec.diagnoses
    assert (cut.kind, cut.severity) == ("graph_cut", "note")
    assert cut.tensor == "LEAF"  # a function's global variable; what the first round made is computed of it
    assert cut.culprit is not None
    assert cut.culprit.code.endswith("# here")


def test_the_leaf_shares_the_bytes_and_the_version_of_what_it_was_made_of() -> None:
    with seegrad.record() as rec:
        result = LEAF * 2
        leaf = nn.Parameter(result)
        before = result._version
        with torch.no_grad():
            leaf.add_(1)
        after = result._version
    (made,) = (frame for frame in rec.recording.frames if frame.op == "Parameter")
    (of,), (number,) = made.inputs, made.outputs
    tensors = rec.recording.tensors
    assert (tensors[number].alias_of, tensors[number].route) == (of, "detach")
    assert (tensors[number].counter == tensors[of].counter) == (after == before + 1)
    assert tensors[number].storage == tensors[of].storage


def test_a_parameter_of_its_own_bytes_or_from_before_the_block_is_no_news() -> None:
    old = LEAF * 2
    known = nn.Parameter(old)
    with seegrad.record() as rec:
        new = nn.Parameter(torch.ones(2).mul(3))
        (old * known * new).sum().backward()
    assert not [frame for frame in rec.recording.frames if frame.op == "Parameter"]
    assert rec.diagnoses == ()


def test_the_picture_says_parameter_where_the_graph_is_cut() -> None:
    with seegrad.record() as rec:
        result = LEAF * 2
        (nn.Parameter(result) * 3).sum().backward()
    drawn = sketch(rec.recording)
    assert [wire.label for wire in drawn.wires if wire.kind == "alias"] == ["Parameter()"]
    assert "(Parameter)" in [card.label for card in drawn.cards]
