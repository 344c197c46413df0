"""Probabilities given to a loss: which pairs are told, which are what is meant, when a line mends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

import seegrad
from seegrad.model.recording import Diagnosis

LABELS, TABLE = torch.tensor([0, 2, 1, 0]), torch.tensor([[1.0, 0.0, 1.0]] * 4)
SOFT = TABLE.softmax(1)

AMISS: dict[str, Callable[[Tensor], Tensor]] = {
    "twice": lambda z: F.cross_entropy(z.softmax(1), LABELS),
    "of a table": lambda z: F.cross_entropy(torch.softmax(z / 2, 1).view(2, 2, 3).flatten(0, 1), SOFT),
    "of sigmoids": lambda z: nn.CrossEntropyLoss()(torch.sigmoid(z), LABELS),
    "two classes": lambda z: F.binary_cross_entropy_with_logits(z.sigmoid(), TABLE),
    "many labels": lambda z: F.multilabel_soft_margin_loss(nn.Sigmoid()(z), TABLE),
    "no logarithm": lambda z: F.nll_loss(nn.Softmax(1)(z), LABELS),
    "clamped": lambda z: F.nll_loss(z.softmax(1).clamp(1e-9, 1.0), LABELS),
    "divergence": lambda z: F.kl_div(input=z.softmax(1), target=SOFT, reduction="sum"),
    "some of them": lambda z: F.cross_entropy(torch.cat([each.softmax(-1) for each in z.split(1)])[:2], LABELS[:2]),
}
MEANT: dict[str, Callable[[Tensor], Tensor]] = {
    "logits": lambda z: F.cross_entropy(z, LABELS) + F.binary_cross_entropy_with_logits(z, TABLE),
    "logarithms": lambda z: F.nll_loss(z.log_softmax(1), LABELS) + F.nll_loss(z.softmax(1).log(), LABELS),
    "the same once more": lambda z: F.cross_entropy(z.log_softmax(1), LABELS),
    "a target": lambda z: F.kl_div(SOFT.log(), z.softmax(1), reduction="sum"),
    "a target named first": lambda z: F.kl_div(target=z.softmax(1), input=SOFT.log(), reduction="sum"),
    "a target of logits": lambda z: F.cross_entropy(z, z.softmax(1)),
    "probabilities": lambda z: F.binary_cross_entropy(z.sigmoid(), TABLE),
    "scaled": lambda z: F.cross_entropy(10 * z.sigmoid() - 5, LABELS),
    "weighed": lambda z: F.cross_entropy(z.softmax(1) * z, LABELS),
}


def found(loss_of: Callable[[Tensor], Tensor]) -> list[Diagnosis]:
    """Of one step."""
    torch.manual_seed(0)
    layer = nn.Linear(5, 3)
    with seegrad.record() as rec:
        loss_of(layer(torch.randn(4, 5))).backward()
    return list(rec.diagnoses)


@pytest.mark.parametrize("name", AMISS)
def test_these_are_told_at_both_lines(name: str) -> None:
    (told,) = found(AMISS[name])
    assert told.kind == "loss_of_probabilities"
    assert told.culprit is not None
    assert told.victim is not None


@pytest.mark.parametrize("name", MEANT)
def test_these_are_what_is_meant(name: str) -> None:
    assert not found(MEANT[name])


def test_a_loss_that_is_only_read_gets_nothing() -> None:
    def loss_of(z: Tensor) -> Tensor:
        F.cross_entropy(z.softmax(1), LABELS)
        return F.cross_entropy(z, LABELS)

    assert not found(loss_of)


def test_where_others_take_the_probabilities_no_line_mends_it() -> None:
    def loss_of(z: Tensor) -> Tensor:
        p = z.softmax(1)
        return F.nll_loss(p, LABELS) + p.square().sum()

    (told,) = found(loss_of)
    assert told.mend is None


def test_a_line_that_makes_the_target_too_stays_as_it_is() -> None:
    def chances(z: Tensor) -> Tensor:
        return z.softmax(1)

    (told,) = found(lambda z: F.kl_div(chances(z), chances(z.detach() + 1), reduction="sum"))
    assert told.mend is None


def test_a_line_mends_it_where_nothing_else_is_done_with_them() -> None:
    def loss_of(z: Tensor) -> Tensor:
        p = torch.softmax(z, dim=1)
        loss = F.nll_loss(p, LABELS)
        p.argmax(1)
        return loss

    (told,) = found(loss_of)
    assert told.mend is not None
    assert told.mend.line == "p = torch.log_softmax(z, dim=1)"
