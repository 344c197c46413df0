"""What torch brings for training: checkpoint, mixed precision, loaders, parametrizations, optimizers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_, parametrizations, rnn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torch.utils.data import DataLoader, TensorDataset

from tests.libraries.table import Built, program, training


def block() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 8))


@program()
def encoder() -> Built:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)
    inputs = torch.randn(2, 6, 16)
    return training(model, lambda: model(inputs, is_causal=True, mask=causal(6)).square().mean())


def causal(length: int) -> torch.Tensor:
    return nn.Transformer.generate_square_subsequent_mask(length)


@program()
def packed() -> Built:
    model: Any = nn.ModuleList([nn.LSTM(4, 8, 2, batch_first=True, bidirectional=True, dropout=0.1), nn.Linear(16, 1)])
    inputs, lengths = torch.randn(3, 7, 4), torch.tensor([7, 5, 2])

    def loss() -> torch.Tensor:
        out, _ = model[0](rnn.pack_padded_sequence(inputs, lengths, batch_first=True))
        return model[1](rnn.pad_packed_sequence(out, batch_first=True)[0]).square().mean()

    return training(model, loss)


@program()
def unrolled() -> Built:
    """An LSTM cell, step by step."""
    model = nn.LSTMCell(4, 8)
    inputs = torch.randn(50, 2, 4)

    def loss() -> torch.Tensor:
        state = torch.zeros(2, 8), torch.zeros(2, 8)
        for each in inputs:
            state = model(each, state)
        return state[0].square().mean()

    return training(model, loss, steps=2)


@program()
def checkpointed() -> Built:
    model = nn.ModuleList([block() for _ in range(3)])
    inputs = torch.randn(4, 8)

    def loss() -> torch.Tensor:
        hidden = inputs
        for each in model:
            hidden = checkpoint(each, hidden, use_reentrant=False)
        return hidden.square().mean()

    return training(model, loss)


@program()
def checkpointed_reentrant() -> Built:
    model = nn.Sequential(*(block() for _ in range(4)))
    inputs = torch.randn(4, 8, requires_grad=True)
    return training(model, lambda: checkpoint_sequential(model, 2, inputs, use_reentrant=True).square().mean())


@program()
def mixed_precision() -> Built:
    model, scaler = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)), torch.amp.GradScaler("cpu", 2.0**8)
    optimizer, inputs = torch.optim.AdamW(model.parameters()), torch.randn(4, 8)

    def run() -> list[torch.Tensor]:
        losses = []
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(inputs).float().square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.detach())
        return losses

    return model, run


@program()
def loaded_by_workers() -> Built:
    model = block()
    data = TensorDataset(torch.randn(12, 8), torch.randn(12, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)

    def run() -> list[torch.Tensor]:
        losses = []
        for inputs, wanted in DataLoader(data, batch_size=4, shuffle=True, num_workers=2):
            optimizer.zero_grad()
            loss = functional.mse_loss(model(inputs), wanted)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses

    return model, run


@program()
def parametrized() -> Built:
    model = nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(8, 8)),
        nn.Tanh(),
        parametrizations.weight_norm(nn.Linear(8, 8)),
        nn.Tanh(),
        parametrizations.orthogonal(nn.Linear(8, 8)),
    )
    inputs = torch.randn(4, 8)
    return training(model, lambda: model(inputs).square().mean())


@program()
def second_order() -> Built:
    """L-BFGS, whose closure runs as often as it likes."""
    model, inputs = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)), torch.randn(6, 8)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(inputs) - 1).square().mean()
        loss.backward()
        return loss

    return model, lambda: [optimizer.step(closure).detach() for _ in range(2)]


@program()
def penalized() -> Built:
    """A critic held near slope one: a gradient of a gradient."""
    model, inputs = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)), torch.randn(4, 8)

    def loss() -> torch.Tensor:
        x = inputs.clone().requires_grad_()
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return model(inputs).mean() + 10 * (slope.norm(dim=1) - 1).square().mean()

    return training(model, loss)


@program()
def averaged_weights() -> Built:
    from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

    model, inputs = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)), torch.randn(6, 8)
    average, optimizer = AveragedModel(model), torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = SWALR(optimizer, swa_lr=0.05)

    def run() -> Any:
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(inputs).square().mean()
            loss.backward()
            optimizer.step()
            average.update_parameters(model)
            schedule.step()
        update_bn([inputs], average)
        return loss.detach(), average

    return model, run


@program()
def stepped_in_backward() -> Built:
    """An optimizer a parameter, run by a hook as soon as its gradient is there."""
    model, inputs = block(), torch.randn(4, 8)
    optimizers = {each: torch.optim.SGD([each], lr=0.1) for each in model.parameters()}

    def update(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()

    for each in model.parameters():
        each.register_post_accumulate_grad_hook(update)

    def run() -> list[torch.Tensor]:
        losses = []
        for _ in range(3):
            model.zero_grad()
            loss = model(inputs).square().mean()
            loss.backward()
            losses.append(loss.detach())
        return losses

    return model, run


@program()
def attended_flexibly() -> Built:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    model = nn.Linear(8, 24).requires_grad_(False)  # the CPU has no backward of it
    inputs = torch.randn(2, 16, 8)
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 16, 16, device="cpu")

    def run() -> torch.Tensor:
        q, k, v = (each[:, None] for each in model(inputs).chunk(3, -1))
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - 0.1 * (i - j), block_mask=mask)

    return model, run
