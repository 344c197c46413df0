"""Products of two factors that are both 0; an optimiser's step that hands on what its gradients hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

import seegrad
from seegrad.model.recording import Diagnosis

Product = Callable[[Tensor, Tensor], Tensor]

PRODUCTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], Product]] = {
    "mul": ((5, 7), (5, 7), torch.mul),
    "mm": ((5, 6), (6, 7), torch.mm),
    "bmm": ((2, 5, 6), (2, 6, 7), torch.bmm),
    "mv": ((5, 6), (6,), torch.mv),
    "linear": ((5, 6), (7, 6), lambda a, b: F.linear(a, b, torch.ones(7))),
    "conv": ((1, 3, 8), (4, 3, 2), F.conv1d),
    "rows": ((30, 7), (30, 7), lambda a, b: a[:9] * F.embedding(torch.arange(9), b)),
}


def train(a: Tensor, b: Tensor, product: Product, steps: int = 14) -> list[Diagnosis]:
    """Some steps on a loss with a bias beside the product."""
    first, second, bias = nn.Parameter(a.clone()), nn.Parameter(b.clone()), nn.Parameter(torch.ones(1))
    opt = torch.optim.SGD([first, second, bias], lr=0.1)
    with seegrad.record() as rec:
        for _ in range(steps):
            opt.zero_grad()
            loss = (product(first, second) + bias - torch.pi).pow(2).mean()
            loss.backward()
            opt.step()
    same = torch.equal(first, a) and torch.equal(second, b)
    assert same == bool(rec.diagnoses)  # torch says whether they learn
    return list(rec.diagnoses)


@pytest.mark.parametrize("name", PRODUCTS)
def test_two_factors_of_zeros_are_told(name: str) -> None:
    one, other, product = PRODUCTS[name]
    (told,) = train(torch.zeros(one), torch.zeros(other), product)
    assert (told.kind, dict(told.arguments)["cause"]) == ("gradient_is_zero", "factors")


@pytest.mark.parametrize("name", PRODUCTS)
def test_one_factor_of_zeros_is_the_usual_beginning(name: str) -> None:
    torch.manual_seed(0)
    one, other, product = PRODUCTS[name]
    for a, b in ((torch.randn(one), torch.zeros(other)), (torch.zeros(one), torch.randn(other))):
        assert not train(a, b, product)


@pytest.mark.parametrize("long", [3, 400])
def test_a_step_that_is_given_nan_is_not_where_it_began(long: int) -> None:
    """Nothing was looked at before the step: the backward before it is what it follows from."""
    torch.manual_seed(0)
    q, v = nn.Linear(6, 6), nn.Linear(6, 6)
    opt = torch.optim.Adam([*q.parameters(), *v.parameters()])
    with seegrad.record() as rec:
        for _ in range(long):
            x, seen = torch.randn(5, 6), torch.ones(5, 5, dtype=torch.bool)
            seen[3] = False
            weights = q(x).mm(x.t()).masked_fill(~seen, -torch.inf).softmax(1)
            loss = (weights @ v(x))[seen.any(1)].square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    (told,) = rec.diagnoses
    assert told.culprit is not None
    assert told.culprit.code.startswith("weights = ")
