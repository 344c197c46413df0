"""What is measured: models of the sizes that people train, and two that are nothing but overhead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Output = Any


@dataclass(frozen=True, slots=True)
class Workload:
    """One forward and backward: `loss(model(*inputs)).backward()`."""

    name: str
    model: nn.Module
    inputs: tuple[torch.Tensor, ...]
    loss: Callable[[Output], torch.Tensor]
    ops: int
    """About how many calls of torch the forward makes."""

    def forward(self) -> torch.Tensor:
        """The loss, a scalar with its graph."""
        return self.loss(self.model(*self.inputs))

    def run(self) -> None:
        """Forward and backward, the gradients where they belong."""
        self.forward().backward()  # type: ignore[no-untyped-call]  # torch gives it no types

    def clear(self) -> None:
        """No gradients any more."""
        self.model.zero_grad(set_to_none=True)

    def gradients(self) -> list[torch.Tensor]:
        """What the last backward left."""
        return [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]


def encoder(batch: int, tokens: int, layers: int = 12, width: int = 256) -> Workload:
    """A TransformerEncoder with 4 heads; f32[batch, tokens, width]."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    x = torch.randn(batch, tokens, width)
    name = f"{layers}-layer encoder, d={width}, {batch}×{tokens} tokens"
    return Workload(name, model, (x,), lambda found: found.square().mean(), 25 * layers)


class NotInstalled(Exception):
    """A program or a side needs a package that isn't here."""


def gpt2(tokens: int, **sizes: int) -> Workload:
    """GPT-2 by `transformers`, its default size of 124 million parameters, random weights; i64[1, tokens].

    Raises: NotInstalled where `transformers` is missing.
    """
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
        from transformers.utils import logging
    except ImportError as error:
        raise NotInstalled("transformers") from error
    logging.set_verbosity_error()
    torch.manual_seed(0)
    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, **sizes)
    model = GPT2LMHeadModel(config)
    x = torch.randint(0, config.vocab_size, (1, tokens))
    return Workload(
        f"GPT-2, {sum(p.numel() for p in model.parameters()) / 1e6:.0f} M parameters, 1×{tokens} tokens",
        model,
        (x,),
        lambda found: found.logits.square().mean(),
        30 * config.n_layer,
    )


class Unrolled(nn.Module):
    """An LSTMCell stepped through a sequence by a Python loop; f32[time, batch, width] → f32[batch, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The last hidden state."""
        state = (x.new_zeros(x.shape[1:]), x.new_zeros(x.shape[1:]))
        for step in x:
            state = self.cell(step, state)
        return state[0]


def lstm(steps: int, batch: int = 16, width: int = 128) -> Workload:
    """An LSTM unrolled over `steps` steps."""
    torch.manual_seed(0)
    x = torch.randn(steps, batch, width)
    name = f"LSTM unrolled {steps:,} steps, {batch}×{width}"
    return Workload(name, Unrolled(width), (x,), lambda found: found.square().mean(), steps)


class Chain(nn.Module):
    """A chain of scalar multiplications: nothing but overhead."""

    def __init__(self, ops: int) -> None:
        super().__init__()
        self.ops = ops
        self.factor = nn.Parameter(torch.ones(()))

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        """`y · factor · 1.00001 · 1.00001 …`."""
        y = y * self.factor
        for _ in range(self.ops - 1):
            y = y * 1.00001
        return y


def chain(ops: int) -> Workload:
    """A chain of `ops` scalar multiplications."""
    return Workload(f"chain of {ops:,} ops", Chain(ops), (torch.ones(()),), lambda found: found, ops)
