"""TorchScript beside the recorder: its tracer must not see what the recorder reads, its calls hold locks of torch's."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.data.transparency.observe import observe

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore::torch.jit.TracerWarning")


@pytest.fixture(autouse=True)
def own_errors_are_raised(monkeypatch):
    monkeypatch.setenv("SEEGRAD_RAISE_OWN_ERRORS", "1")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x).relu_())


def a_function() -> Any:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = (x * w).reshape(2, 2).exp()
        y.add_(2)
        y[0].mul_(3)
        return y.sum()

    w = torch.ones(4, requires_grad=True)
    traced = torch.jit.trace(function, (torch.ones(4), w))
    loss = traced(torch.ones(4), w)
    loss.backward()
    return traced.code, str(traced.graph), loss, w.grad


def a_module() -> Any:
    block = Block()
    traced = torch.jit.trace(block, torch.randn(3, 4))
    out = traced(torch.randn(3, 4))
    out.square().sum().backward()
    return traced.code, out, [each.grad for each in block.parameters()]


def without_a_check() -> Any:
    return torch.jit.trace(Block().eval(), torch.randn(3, 4), check_trace=False).code


def a_value_that_is_read_while_it_is_traced() -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x * float(x[0])

    return torch.jit.trace(function, torch.ones(2)).code


def an_error_in_what_is_traced() -> Any:
    torch.jit.trace(lambda x: x @ torch.ones(3), torch.ones(2))


def a_script_that_was_traced() -> Any:
    scripted = torch.jit.script(Block())
    return torch.jit.trace(scripted, torch.randn(3, 4)).code, torch.jit.freeze(scripted.eval())(torch.ones(3, 4))


TRACED = (
    a_function,
    a_module,
    without_a_check,
    a_value_that_is_read_while_it_is_traced,
    an_error_in_what_is_traced,
    a_script_that_was_traced,
)


@pytest.mark.parametrize("detail", ["default", "content"])
@pytest.mark.parametrize("run", TRACED, ids=lambda run: run.__name__)
def test_the_tracer_sees_the_user_s_calls_alone(run: Callable[[], Any], detail: str) -> None:
    observe(run, None)
    assert observe(run, detail) == observe(run, None)


@pytest.mark.parametrize("use", ["torch.jit.script(double)(view)", "torch.jit.trace(lambda x: x * 2, view)"])
def test_a_view_whose_base_was_written_is_given_to_a_script(use: str, tmp_path: Path) -> None:
    """Torch makes the view's Node anew at that moment, and sets its hooks while it holds the view's lock."""
    program = f"""
        import torch, seegrad, warnings
        warnings.simplefilter("ignore")

        def double(x: torch.Tensor):
            return x * 2

        with seegrad.record() as rec:
            x = torch.ones(4, requires_grad=True)
            y = x * 1
            view = y[:2]
            y.mul_(2)
            {use}
        print("came to its end", len(rec.frames) > 3)
    """
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(program))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "came to its end True\n"
