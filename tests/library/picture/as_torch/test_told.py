"""What the sentences say of autograd is what torch does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import seegrad
from seegrad.picture import draw
from seegrad.picture.narrate import Narrator


def test_a_tied_weight_is_counted_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(self.embedding(x))
            return out

    with seegrad.record() as rec:
        model = Tied()
        model(torch.tensor([1, 2])).sum().backward()
    assert len(list(model.parameters())) == 1
    assert draw(rec.recording).frames[-1].diagnosis == "1 leaf got a gradient; no problem was found."


def test_a_parameter_that_the_model_holds_and_nothing_uses_is_counted() -> None:
    with seegrad.record() as rec:
        model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        model[0](torch.ones(2)).sum().backward()
    assert draw(rec.recording).frames[-1].diagnosis.startswith("2 of 4 parameters got a gradient")


@pytest.mark.parametrize(
    ("op", "code"), [("gt", "z > 0"), ("zeros_like", "torch.zeros_like(z)"), ("argmax", "z.argmax()")]
)
def test_an_op_without_a_derivative_says_so_where_its_input_needs_a_gradient(op: str, code: str) -> None:
    x = torch.ones(3, requires_grad=True)
    with seegrad.record() as rec:
        z = x * 2
        made = eval(code, {"z": z, "torch": torch})  # noqa: S307  # one of the ops above
    assert z.requires_grad
    assert not made.requires_grad
    said = Narrator(rec.recording).sentences()[-1]
    assert said.endswith(f"Autograd records nothing: no gradient passes through {op}.")


def test_an_op_on_a_tensor_that_asks_for_a_gradient_only_later_had_no_input_that_needs_one() -> None:
    x = torch.ones(3)
    with seegrad.record() as rec:
        y = x * 2
        x.requires_grad_()
        z = x * y
    assert z.requires_grad
    assert "no input needs a gradient" in Narrator(rec.recording).sentences()[1]
