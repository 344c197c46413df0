"""A distribution beside itself, and its own draw: what is said of the gradients, held against torch."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Categorical, Independent, Laplace, Normal, kl_divergence

from tests.library.recorded import seen

DISTRIBUTIONS = {
    "normal": lambda given: Normal(given[0], given[1].exp()),
    "laplace": lambda given: Laplace(given[0], given[1].exp()),
    "independent": lambda given: Independent(Normal(given[0], given[1].exp()), 1),
    "categorical": lambda given: Categorical(logits=given),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_divergence_from_itself_has_no_slope_and_no_curve(name: str) -> None:
    given = torch.randn(2, 4, 3, dtype=torch.float64)

    def divergence(given: torch.Tensor) -> torch.Tensor:
        itself = DISTRIBUTIONS[name](given)
        return kl_divergence(itself, itself).sum()

    assert torch.autograd.functional.jacobian(divergence, given).abs().max() < 1e-12
    assert torch.autograd.functional.hessian(divergence, given).abs().max() < 1e-12


def test_a_draw_that_is_scored_with_its_graph_teaches_its_mean_nothing() -> None:
    mean, wide = torch.randn(6, 2, requires_grad=True), torch.zeros(2, requires_grad=True)
    by = Normal(mean, wide.exp())
    (by.log_prob(by.rsample()).sum(1) * torch.randn(6)).mean().backward()
    assert mean.grad is not None
    assert wide.grad is not None
    assert not mean.grad.any()
    assert wide.grad.any()


def test_the_lines_and_the_tensors_are_said() -> None:
    (told,) = seen("rw_archer_whose_draw_keeps_its_graph").recording.diagnoses
    assert told.culprit is not None
    line = told.culprit.line
    assert f"`log_prob` on line {line + 2} takes `aim` from it again" in told.message()
    assert f"the weights on line {line + 3} teach it nothing" in told.message()
    assert "score `shot.detach()`" in told.message()
